"""`action=play`: one file that loads nothing, and what a reader does with it in a browser."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab import main as run
from looplab import play
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.show.play import write
from looplab.training import Run, train
from tests.conftest import tiny_config

HERE = Path(write.__file__).parent
MOST_WORDS = 120
MOST_PAGE = 700_000  # bytes
MOST_BYTES = {"engine.js": 25_000, "all": 45_000}
_TINY = (
    "task=curves task.dims=5 task.points=11 model.n_embd=16 model.n_head=2 model.n_positions=11 "
    "training.steps=0 evaluation.prompts=8 evaluation.resamples=2"
)
_DRIVER = Path(__file__).with_name("browser.js")
needs_browser = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("chromium")), reason="there is no browser with node"
)


@pytest.fixture
def curves(tmp_path: Path) -> list[Run]:
    """An untrained model of each kind that a page shows."""
    kinds = ("loops.b=4", "model=standard model.n_layer=2", "model=tied loops.b=4")
    config = [Config.of(*_TINY.split(), *kind.split(), f"folder={tmp_path}") for kind in kinds]
    return [train(each) for each in config]


@pytest.fixture
def tables(tmp_path: Path) -> Run:
    """An untrained classifier of random tables."""
    settings = _TINY.replace("task=curves", "task=tables_prior")
    return train(Config.of(*settings.split(), "loops.b=4", f"folder={tmp_path}"))


def facts_of(text: str) -> dict[str, Any]:
    (facts,) = re.findall(r'<script id="facts" [^>]*>(.*?)</script>', text)
    return json.loads(facts)


def test_one_file_holds_all_and_loads_nothing(
    curves: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = (str(each.path) for each in curves)
    folder = tmp_path / "page"
    assert run.main(["action=play", f"run={first}", f"also={others}", f"output={folder}"]) == 0
    (path,) = folder.iterdir()
    assert path.stem == curves[0].path.name
    assert capsys.readouterr().out.startswith(f"{path}: ")
    text = path.read_text(encoding="utf-8")
    assert text == play(first, others).html
    assert not re.findall(r"""\b(?:src|href|url|import|fetch)\b ?[=(]""", text)
    loops = [(each["b"], each["most"]) for each in facts_of(text)["models"]]
    assert loops == [(4, 16), (2, 2), (4, 16)]
    assert play(curves[0])._repr_html_().startswith("<iframe ")


@pytest.mark.parametrize("kind", write.SCRIPTS)
def test_a_page_is_short(kind: str, curves: list[Run], tables: Run) -> None:
    """In words that a reader sees, and in code that runs there."""
    text = play(curves[0] if kind == "curves" else tables).html
    words = re.sub(r"<(script|style|title).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL).split()
    assert 40 < len(words) < MOST_WORDS
    sizes = [(HERE / name).stat().st_size for name in ("engine.js", *write.SCRIPTS[kind])]
    assert sizes[0] <= MOST_BYTES["engine.js"]
    assert sum(sizes) <= MOST_BYTES["all"]


def test_runs_of_one_kind_have_names_of_their_own(curves: list[Run]) -> None:
    name = curves[0].path.name
    for model in facts_of(play(curves[0], [curves[0]]).html)["models"]:
        assert model["label"].endswith(f"({name})")


def test_what_cannot_be_played_is_one_line(curves: list[Run], tables: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is of task=sparse_linear: a page plays"):
        play(train(replace(tiny_config(tmp_path), training=curves[0].config.training)))
    words = (*_TINY.split(), "task.noise_std=0.5", f"folder={tmp_path}")
    for other in (train(Config.of(*words)), tables):
        with pytest.raises(ConfigError, match=r"^also must be of the same task as .*: "):
            play(curves[0], [other])


def test_the_classifier_that_ships_is_a_word(tmp_path: Path) -> None:
    assert run.main(["action=play", "run=classifier", f"output={tmp_path}"]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "classifier.html"
    assert path.stat().st_size < MOST_PAGE


_POINTS = "location.hash.split('points=')[1]"
_NOTE = "note.textContent"
_PLOT = "#panels svg"
_WIDTHS = {390: "light", 820: "dark", 1600: "light"}
_READY = ["until", f"document.querySelector('{_PLOT}').dataset.took"]


def write_page(folder: Path, *runs: Run) -> Path:
    path = folder / "page.html"
    path.write_text(play(runs[0], runs[1:]).html, encoding="utf-8")
    return path


def visit(address: str, steps: list[Any], width: int = 820) -> dict[str, Any]:
    return {"page": address, "width": width, "scheme": _WIDTHS[width], "steps": steps}


def heard(*visits: dict[str, Any]) -> list[list[Any]]:
    """What the steps `say` of each visit gave in a browser that had nothing to complain of."""
    done = subprocess.run(
        ["node", str(_DRIVER)],
        input=json.dumps(visits), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["complaints"] == []
    said = iter(found["said"])
    return [[next(said) for step in each["steps"] if step[0] == "say"] for each in visits]


@needs_browser
def test_a_reader_draws_points_at_three_widths(curves: list[Run], tmp_path: Path) -> None:
    """By mouse and by keys, adds, moves and removes them, and goes beyond b."""
    steps = [
        ["until", "document.querySelectorAll('#panels .curve').length === 3"],
        ["say", "document.documentElement.scrollWidth"],
        ["say", "getComputedStyle(document.body).backgroundColor"],
        ["click", _PLOT, 0.5, 0.25],
        ["say", _POINTS],
        ["drag", _PLOT, 0.5, 0.25, 0.75, 0.5],
        ["say", _POINTS],
        ["click", _PLOT, 0.75, 0.5],
        ["say", _POINTS],
        ["say", f"document.querySelector('{_PLOT}').focus()"],
        ["key", "Enter"],
        ["key", "ArrowUp"],
        ["say", _POINTS],
        ["key", "Delete"],
        ["say", _POINTS],
        ["click", "#loop", 0.75],
        ["until", "reading.textContent === 'loop 12, beyond the 4 of training'"],
        ["say", "document.querySelector('#errors').hidden"],
        ["click", "#clear"],
        ["say", _POINTS],
        ["click", "#another"],
        ["click", "#far"],
        ["until", "errors.querySelectorAll('.curve').length === 3"],
        ["say", f"{_POINTS}.split(';').length"],
        ["say", "[...document.querySelectorAll('main .ring')].some((e) => !e.style.display)"],
        ["click", "#clear"],
        ["tap", _PLOT, 0.5, 0.5],
        ["say", f"{_POINTS}.split(';').length"],
        ["tap", _PLOT, 0.5, 0.5],
        ["say", _POINTS],
        ["click", "#play"],
        ["until", "reading.textContent === 'loop 16, beyond the 4 of training'"],
    ]
    at_start = "-0.500,1.000;0.500,-1.000"
    page = write_page(tmp_path, *curves)
    address = f"{page.as_uri()}#loop=2&seed=7&points=-0.5,1;0.5,-1"
    said = heard(*(visit(address, steps, width) for width in _WIDTHS))
    for (width, scheme), answers in zip(_WIDTHS.items(), said, strict=True):
        shown_width, colour, added, moved, removed, _, by_key, deleted, *rest = answers
        assert shown_width == width  # nothing is cut off at the right
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]
        # The plot's width is that of the interval and .12 of it on each side, its height 6.6.
        assert near(added, 0.0, 1.65)
        assert near(moved, 0.56, 0.0)
        assert removed == deleted == at_start
        assert near(by_key, 0.0, 0.132)
        # Ten points are drawn three times as far, and some of them marked.
        assert rest == [False, "", 10, True, 1, ""]


@needs_browser
def test_a_plot_stays_below_a_point_that_is_dragged(curves: list[Run], tmp_path: Path) -> None:
    """Also where the point stretches the scale; the address follows when the drag ends."""
    below = """(() => {
      const [point, svg] = ['.point', 'svg'].map(
        (name) => document.querySelector('#panels ' + name).getBoundingClientRect());
      return (point.y + point.height / 2 - svg.y) / svg.height;
    })()"""
    steps = [
        _READY,
        ["press", _PLOT, 0.5, 0.01],
        ["move", _PLOT, 0.5, 0.5],
        ["move", _PLOT, 0.5, 0.75],
        ["say", below],
        ["say", _POINTS],
        ["release", _PLOT, 0.5, 0.75],
        ["say", below],
        ["say", _POINTS],
    ]
    address = f"{write_page(tmp_path, curves[0]).as_uri()}#loop=2&points=0,10"
    ((dragged, meanwhile, released, afterwards),) = heard(visit(address, steps))
    assert dragged == pytest.approx(0.75, abs=0.02)
    assert meanwhile == "0.000,10.000"
    assert released == pytest.approx(1.0, abs=0.02)  # it is the highest still
    assert near(afterwards, 0.0, -5.0)


@needs_browser
def test_a_page_says_what_would_surprise(curves: list[Run], tmp_path: Path) -> None:
    hasten = """(() => {
      loop.value = 16;
      loop.dispatchEvent(new Event('input'));
      return document.querySelector('.said').textContent;
    })()"""
    many = ";".join(f"{0.1 * i:.3f},0.000" for i in range(10))
    visits: dict[str, list[Any]] = {
        "loop=2&points=0,1;x;0.5,1,2": [["say", _NOTE], ["say", _POINTS]],
        "loop=999&points=": [["say", _NOTE]],
        "nothing": [["say", _NOTE]],
        f"loop=2&points={many}": [
            ["say", _NOTE],
            ["click", _PLOT, 0.5, 0.25],
            ["say", _NOTE],
            ["click", _PLOT, 0.5, 0.5],  # which removes the point there
            ["say", _NOTE],
        ],
        "loop=2&points=0,1": [["say", hasten], ["until", f"!{hasten}.startsWith('comp')"]],
    }
    page = write_page(tmp_path, curves[0]).as_uri()
    damaged = "The link is damaged: this is what could be read."
    assert heard(*(visit(f"{page}#{end}", [_READY, *steps]) for end, steps in visits.items())) == [
        [damaged, "0.000,1.000"],
        [damaged],
        ["The link cannot be read."],
        ["", "10 points are the most: remove one first.", ""],
        ["computing …"],
    ]


@needs_browser
def test_switches_keep_the_points_of_the_reader(curves: list[Run], tmp_path: Path) -> None:
    steps: list[list[Any]] = [_READY]
    for switch in ("#far", "#far", "#noisy", "#noisy"):
        steps += [["click", switch], ["say", _POINTS]]
    made = "-0.500,1.000;0.500,-1.000"
    page = write_page(tmp_path, curves[0]).as_uri()
    for seed in (0, 7):
        (said,) = heard(visit(f"{page}#loop=2&seed={seed}&points={made}", steps))
        far, back, noisy, quiet = (numbers(each) for each in said)
        assert [x for x, _ in far] == [-1.5, 1.5]
        assert ([y for _, y in far] == [1, -1]) == (seed == 0)
        assert back == quiet == numbers(made)
        assert [x for x, _ in noisy] == [-0.5, 0.5]
        assert all(0 < abs(y - old) < 2 for (_, y), (_, old) in zip(noisy, back, strict=True))


@needs_browser
def test_a_model_that_is_normalised_does_not_see_how_high_points_are(
    curves: list[Run], tmp_path: Path
) -> None:
    steps = [
        ["until", "document.querySelector('#panels .curve')"],
        ["say", "document.querySelector('#panels .curve').getAttribute('d')"],
    ]
    address = f"{write_page(tmp_path, curves[0]).as_uri()}#loop=2&points=-0.5,1;0.5,-1"
    ways = ("", "&high", "&scaled", "&high&scaled")
    plain, high, scaled, both = heard(*(visit(address + way, steps) for way in ways))
    assert plain != high
    assert plain == scaled == both  # the root mean square of these is 1


@needs_browser
def test_a_reader_tells_two_classes_apart(tables: Run, tmp_path: Path) -> None:
    """Points of the chosen class, by mouse and keys; what is said where one class is missing."""
    shown = "document.querySelector('#panels image')"
    steps = [
        ["until", shown],
        ["say", "document.documentElement.scrollWidth"],
        ["say", "document.querySelectorAll('#panels .bayes').length"],
        ["click", _PLOT, 0.75, 0.25],
        ["click", "[name=class][value='1']"],
        ["click", _PLOT, 0.25, 0.25],
        ["say", _POINTS],
        ["drag", _PLOT, 0.25, 0.25, 0.5, 0.25],
        ["say", _POINTS],
        ["say", f"document.querySelector('{_PLOT}').focus()"],
        ["key", " "],
        ["key", "ArrowUp"],
        ["say", _POINTS],
        ["say", "document.activeElement.getAttribute('aria-label')"],
        ["key", "Enter"],
        ["say", "document.activeElement.tagName"],
        ["click", "#clear"],
        ["say", "document.querySelector('.said').textContent"],
        ["say", f"{shown} === null"],
        ["click", "#another"],
        ["until", shown],
        ["say", f"{_POINTS}.split(';').length"],
    ]
    address = f"{write_page(tmp_path, tables).as_uri()}#loop=2&points=-1,0,0;1,0,1"
    said = heard(*(visit(address, steps, width) for width in _WIDTHS))
    for width, answers in zip(_WIDTHS, said, strict=True):
        shown_width, lines, added, moved, _, by_key, label, *rest = answers
        assert (shown_width, lines) == (width, 1)
        *_, zero, one = numbers(added)
        assert zero == pytest.approx([1.5, 1.5, 0], abs=0.03)
        assert one == pytest.approx([-1.5, 1.5, 1], abs=0.03)
        assert numbers(moved)[-1] == pytest.approx([0, 1.5, 1], abs=0.03)
        assert numbers(by_key)[-1] == [0, 0.12, 1]
        assert label.startswith("point 5, a square: x 0.00, y 0.12;")
        assert rest == ["svg", "add points of both classes", True, 10]


def numbers(points: str) -> list[list[float]]:
    """The points of an address."""
    return [[float(each) for each in point.split(",")] for point in points.split(";")]


def near(points: str, x: float, y: float) -> bool:
    """Says whether the last point is there, but for the width of a pixel or two."""
    *_, found = numbers(points)
    return abs(found[0] - x) < 0.02 and abs(found[1] - y) < 0.05
