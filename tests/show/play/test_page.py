"""`action=play`: one file that loads nothing, and what a reader does with it in a browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
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
    (facts,) = re.findall(r'<script id="facts" [^>]*>(.*?)</script>', text)
    assert [each["b"] for each in json.loads(facts)["models"]] == [4, 2, 4]
    assert [each["most"] for each in json.loads(facts)["models"]] == [16, 2, 16]
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
    text = play(curves[0], [curves[0]]).html
    (facts,) = re.findall(r'<script id="facts" [^>]*>(.*?)</script>', text)
    name = curves[0].path.name
    assert all(each["label"].endswith(f"({name})") for each in json.loads(facts)["models"])


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


def visit(page: Path, width: int, scheme: str) -> dict[str, Any]:
    """A reader who adds, moves and removes points by mouse and by keys, and goes beyond b."""
    plot, points = "#panels svg", "location.hash.split('points=')[1]"
    shown = "document.querySelectorAll('#panels .curve').length === 3"
    return {
        "page": f"{page.as_uri()}#loop=2&seed=7&points=-0.5,1;0.5,-1",
        "width": width,
        "scheme": scheme,
        "steps": [
            ["until", shown],
            ["say", "document.documentElement.scrollWidth"],
            ["say", "getComputedStyle(document.body).backgroundColor"],
            ["click", plot, 0.5, 0.25],
            ["say", points],
            ["drag", plot, 0.5, 0.25, 0.75, 0.5],
            ["say", points],
            ["click", plot, 0.75, 0.5],
            ["say", points],
            ["say", f"document.querySelector('{plot}').focus()"],
            ["key", "Enter"],
            ["key", "ArrowUp"],
            ["say", points],
            ["key", "Delete"],
            ["say", points],
            ["click", "#loop", 0.75],
            ["until", "reading.textContent === 'loop 12, beyond the 4 of training'"],
            ["say", "document.querySelector('#errors').hidden"],
            ["click", "#clear"],
            ["say", points],
            ["click", "#another"],
            ["click", "#far"],
            ["until", "errors.querySelectorAll('.curve').length === 3"],
            ["say", f"{points}.split(';').length"],
            ["say", "[...document.querySelectorAll('main .ring')].some((e) => !e.style.display)"],
            ["click", "#clear"],
            ["tap", plot, 0.5, 0.5],
            ["say", f"{points}.split(';').length"],
            ["tap", plot, 0.5, 0.5],
            ["say", points],
            ["click", "#play"],
            ["until", "reading.textContent === 'loop 16, beyond the 4 of training'"],
        ],
    }


@needs_browser
def test_a_reader_draws_points_at_three_widths(curves: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(play(curves[0], curves[1:]).html, encoding="utf-8")
    widths = {390: "light", 820: "dark", 1600: "light"}
    said = heard([visit(page, width, scheme) for width, scheme in widths.items()])
    at_start = "-0.500,1.000;0.500,-1.000"
    for width, scheme in widths.items():
        assert next(said) == width  # nothing is cut off at the right
        assert next(said) == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]
        added, moved, removed = next(said), next(said), next(said)
        # The plot's width is that of the interval and .12 of it on each side, its height 6.6.
        assert near(added, 0.0, 1.65)
        assert near(moved, 0.56, 0.0)
        assert removed == at_start
        assert next(said) is None
        assert near(next(said), 0.0, 0.132)
        assert next(said) == at_start
        assert next(said) is False
        assert next(said) == ""
        assert next(said) == 10  # drawn three times as far, and some of them marked
        assert next(said) is True
        assert next(said) == 1
        assert next(said) == ""


def heard(visits: list[dict[str, Any]]) -> Iterator[Any]:
    """What the steps `say` of visits gave in a browser that had nothing to complain of."""
    done = subprocess.run(
        ["node", str(_DRIVER)],
        input=json.dumps(visits), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["complaints"] == []
    return iter(found["said"])


_POINTS = "location.hash.split('points=')[1]"
_NOTE = "note.textContent"


@needs_browser
def test_a_plot_stays_below_a_point_that_is_dragged(curves: list[Run], tmp_path: Path) -> None:
    """Also where the point stretches the scale; the address follows when the drag ends."""
    page = tmp_path / "page.html"
    page.write_text(play(curves[0]).html, encoding="utf-8")
    plot = "#panels svg"
    below = """(() => {
      const [point, svg] = ['.point', 'svg'].map(
        (name) => document.querySelector('#panels ' + name).getBoundingClientRect());
      return (point.y + point.height / 2 - svg.y) / svg.height;
    })()"""
    steps = [
        ["until", f"document.querySelector('{plot}').dataset.took"],
        ["press", plot, 0.5, 0.01],
        ["move", plot, 0.5, 0.5],
        ["move", plot, 0.5, 0.75],
        ["say", below],
        ["say", _POINTS],
        ["release", plot, 0.5, 0.75],
        ["say", below],
        ["say", _POINTS],
    ]
    address = f"{page.as_uri()}#loop=2&points=0,10"
    said = heard([{"page": address, "width": 820, "scheme": "light", "steps": steps}])
    assert next(said) == pytest.approx(0.75, abs=0.02)
    assert next(said) == "0.000,10.000"
    assert next(said) == pytest.approx(1.0, abs=0.02)  # it is the highest still
    assert near(next(said), 0.0, -5.0)


@needs_browser
def test_a_page_says_what_would_surprise(curves: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(play(curves[0]).html, encoding="utf-8")
    plot = "#panels svg"
    ready = ["until", f"document.querySelector('{plot}').dataset.took"]
    hasten = """(() => {
      loop.value = 16;
      loop.dispatchEvent(new Event('input'));
      return document.querySelector('.said').textContent;
    })()"""
    many = ";".join(f"{0.1 * i:.3f},0.000" for i in range(10))
    visits = {
        "loop=2&points=0,1;x;0.5,1,2": [ready, ["say", _NOTE], ["say", _POINTS]],
        "loop=999&points=": [ready, ["say", _NOTE]],
        "nothing": [ready, ["say", _NOTE]],
        f"loop=2&points={many}": [
            ready,
            ["say", _NOTE],
            ["click", plot, 0.5, 0.25],
            ["say", _NOTE],
            ["click", plot, 0.5, 0.5],  # which removes the point there
            ["say", _NOTE],
        ],
        "loop=2&points=0,1": [ready, ["say", hasten], ["until", f"!{hasten}.startsWith('comp')"]],
    }
    said = heard(
        [
            {"page": f"{page.as_uri()}#{given}", "width": 820, "scheme": "light", "steps": steps}
            for given, steps in visits.items()
        ]
    )
    damaged = "The link is damaged: this is what could be read."
    assert next(said) == damaged
    assert next(said) == "0.000,1.000"
    assert next(said) == damaged
    assert next(said) == "The link cannot be read."
    assert next(said) == ""
    assert next(said) == "10 points are the most: remove one first."
    assert next(said) == ""
    assert next(said) == "computing …"


@needs_browser
def test_switches_keep_the_points_of_the_reader(curves: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(play(curves[0]).html, encoding="utf-8")
    steps: list[list[Any]] = [["until", "document.querySelector('#panels svg').dataset.took"]]
    for switch in ("#far", "#far", "#noisy", "#noisy"):
        steps += [["click", switch], ["say", _POINTS]]
    made = "-0.500,1.000;0.500,-1.000"
    for seed in (0, 7):
        address = f"{page.as_uri()}#loop=2&seed={seed}&points={made}"
        said = heard([{"page": address, "width": 820, "scheme": "light", "steps": steps}])
        (far, back, noisy, quiet) = (numbers(each) for each in said)
        assert [x for x, _ in far] == [-1.5, 1.5]
        assert ([y for _, y in far] == [1, -1]) == (seed == 0)
        assert back == quiet == numbers(made)
        assert [x for x, _ in noisy] == [-0.5, 0.5]
        assert all(0 < abs(y - old) < 2 for (_, y), (_, old) in zip(noisy, back, strict=True))


@needs_browser
def test_a_model_that_is_normalised_does_not_see_how_high_points_are(
    curves: list[Run], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(play(curves[0]).html, encoding="utf-8")
    steps = [
        ["until", "document.querySelector('#panels .curve')"],
        ["say", "document.querySelector('#panels .curve').getAttribute('d')"],
    ]
    address = f"{page.as_uri()}#loop=2&points=-0.5,1;0.5,-1"
    said = heard(
        [
            {"page": address + flags, "width": 820, "scheme": "light", "steps": steps}
            for flags in ("", "&high", "&scaled", "&high&scaled")
        ]
    )
    plain, high, scaled, both = said
    assert plain != high
    assert plain == scaled == both  # the root mean square of these is 1


@needs_browser
def test_a_reader_tells_two_classes_apart(tables: Run, tmp_path: Path) -> None:
    """Points of the chosen class, by mouse and keys; what is said where one class is missing."""
    page = tmp_path / "page.html"
    page.write_text(play(tables).html, encoding="utf-8")
    plot = "#panels svg"
    shown = "document.querySelector('#panels image')"
    steps = [
        ["until", shown],
        ["say", "document.documentElement.scrollWidth"],
        ["say", "document.querySelectorAll('#panels .bayes').length"],
        ["click", plot, 0.75, 0.25],
        ["click", "[name=class][value='1']"],
        ["click", plot, 0.25, 0.25],
        ["say", _POINTS],
        ["drag", plot, 0.25, 0.25, 0.5, 0.25],
        ["say", _POINTS],
        ["say", f"document.querySelector('{plot}').focus()"],
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
    widths = {390: "light", 820: "dark", 1600: "light"}
    address = f"{page.as_uri()}#loop=2&points=-1,0,0;1,0,1"
    said = heard(
        [
            {"page": address, "width": width, "scheme": scheme, "steps": steps}
            for width, scheme in widths.items()
        ]
    )
    for width in widths:
        assert next(said) == width
        assert next(said) == 1
        *_, zero, one = numbers(next(said))
        assert zero == pytest.approx([1.5, 1.5, 0], abs=0.03)
        assert one == pytest.approx([-1.5, 1.5, 1], abs=0.03)
        assert numbers(next(said))[-1] == pytest.approx([0, 1.5, 1], abs=0.03)
        assert next(said) is None
        assert numbers(next(said))[-1] == [0, 0.12, 1]
        assert next(said).startswith("point 5, a square: x 0.00, y 0.12;")
        assert next(said) == "svg"
        assert next(said) == "add points of both classes"
        assert next(said) is True
        assert next(said) == 10


def numbers(points: str) -> list[list[float]]:
    """The points of an address."""
    return [[float(each) for each in point.split(",")] for point in points.split(";")]


def near(points: str, x: float, y: float) -> bool:
    """Says whether the last point is there, but for the width of a pixel or two."""
    found = [float(number) for number in points.split(";")[-1].split(",")]
    return abs(found[0] - x) < 0.02 and abs(found[1] - y) < 0.05
