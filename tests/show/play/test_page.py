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
MOST_BYTES = {"engine.js": 25_000, "page.js": 21_000}
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
    words = re.sub(r"<(script|style|title).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL).split()
    assert 40 < len(words) < MOST_WORDS
    for name, most in MOST_BYTES.items():
        assert (HERE / name).stat().st_size <= most
    assert play(curves[0])._repr_html_().startswith("<iframe ")


def test_runs_of_one_kind_have_names_of_their_own(curves: list[Run]) -> None:
    text = play(curves[0], [curves[0]]).html
    (facts,) = re.findall(r'<script id="facts" [^>]*>(.*?)</script>', text)
    name = curves[0].path.name
    assert all(each["label"].endswith(f"({name})") for each in json.loads(facts)["models"])


def test_what_cannot_be_played_is_one_line(curves: list[Run], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is of task=sparse_linear: a page plays"):
        play(train(replace(tiny_config(tmp_path), training=curves[0].config.training)))
    words = (*_TINY.split(), "task.noise_std=0.5", f"folder={tmp_path}")
    with pytest.raises(ConfigError, match=r"^also must be of the same curves as .*: "):
        play(curves[0], [train(Config.of(*words))])


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
    visits = [visit(page, width, scheme) for width, scheme in widths.items()]
    done = subprocess.run(
        ["node", str(_DRIVER)],
        input=json.dumps(visits), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["complaints"] == []
    at_start = "-0.500,1.000;0.500,-1.000"
    said = iter(found["said"])
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


def near(points: str, x: float, y: float) -> bool:
    """Says whether the last point is there, but for the width of a pixel or two."""
    found = [float(number) for number in points.split(";")[-1].split(",")]
    return abs(found[0] - x) < 0.02 and abs(found[1] - y) < 0.05
