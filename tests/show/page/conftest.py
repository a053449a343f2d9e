"""One measured folder, with one of everything that a report shows, for all tests of this folder,
which do not change it; and the page read back."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.show import drawing
from looplab.show.compare import compare
from looplab.show.evaluate import evaluate
from looplab.show.panel import Curve, Panel
from looplab.training import train
from looplab.training.run_folder.files import write_record
from tests.conftest import tiny_config

INLINE = ("b", "span", "wbr")  # the parts of a command
NASTY = 'a<script>alert("x")</script>, $1 & <b>b</b>'


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without matplotlib's pictures, which take most of its time and no page shows."""
    with patch.object(drawing, "write_picture", lambda _, path, __: path.write_bytes(b"")):
        return _measured(tmp_path_factory.mktemp("measured") / "runs")


def _measured(folder: Path) -> Path:
    """Two runs (one read at two numbers of loops, with a shift), their comparison, and an
    experiment with names that hold HTML, in `folder`, which is returned."""
    config = replace(tiny_config(folder), folder=str(folder))
    first, second = train(config), train(replace(config, seed=1))
    settings = EvaluationConfig(
        prompts=32, resamples=20, batch_size=32, baselines=("least_squares", "averaging")
    )
    for loops in (2, 6):
        evaluate(first, replace(settings, loops=loops, shifts=("noise",)))
    evaluate(second, settings)
    compare([first, second], settings, folder)
    write_record(experiment_path(folder), "experiment", experiment(first.path))
    return folder


def experiment_path(folder: Path, name: str = "fig02-small") -> Path:
    """Where an experiment's result is; its folder is made."""
    path = folder / "experiments" / name / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def experiment(run: Path) -> dict[str, Any]:
    """An experiment's result: a claim of each verdict, and a figure."""
    model = _curve("looped", "looped", "looped", [0.9, 0.5, 0.1])
    solver = _curve("ls", NASTY, "least_squares", [1.0, 0.4, 1e-9])
    panel = Panel(
        "by_examples", f"Errors of {NASTY}", "k", "error", [0, 1, 2], [model, solver], log="y",
        levels={"zero": 1.0},
    )  # fmt: skip
    names = ("holds", "fails", "not settled", "not measured")
    member = {
        "label": NASTY, "run": str(run), "words": ["task=linear", "loops.b=[1,2]"], "seed": 0,
        "step": 7, "steps": 90, "state": "unfinished",
        "remarks": ["training unfinished: 7 of 90 steps"],
    }  # fmt: skip
    return {
        "experiment": "fig02", "title": f"Title {NASTY}", "source": "arXiv 2311.12424",
        "scale": "small", "command": "python run.py experiment=fig02", "members": [member],
        "panels": [panel.plain()], "verdicts": [verdict(name) for name in names],
        "missing": [f"{NASTY}: 7 of 90 steps"],
    }  # fmt: skip


def verdict(name: str) -> dict[str, Any]:
    """A judged claim whose sentence names the verdict; two are of one statement of a paper."""
    measured = name != "not measured"
    return {
        "claim": name, "sentence": f"A claim that is {name}", "source": "Figure 2",
        "quantity": "ratio", "published": "0.98" if measured else "",
        "mean": 1.25 if measured else None, "low": 1.1 if measured else None,
        "high": 1.375 if measured else None, "line": 1.5, "holds_if": "below", "seeds": 2,
        "steps": 5000, "published_steps": 500_000, "scale": "small", "verdict": name,
        "statement": "ABC-1" if name in ("holds", "fails") else "", "says": "A or B.",
        "note": f"note on {name}", "command": f"python run.py experiment=fig02 'x=[{name}]'",
    }  # fmt: skip


def _curve(name: str, label: str, kind: str, mean: list[float]) -> Curve:
    low, high = [value * 0.9 for value in mean], [value * 1.1 for value in mean]
    return Curve(name=name, label=label, kind=kind, mean=mean, low=low, high=high)


class Page(HTMLParser):
    """What a page holds: its tags with attributes, and its text outside scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = self._inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += " " * (tag not in INLINE)
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.text += " " * (tag not in INLINE)
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data
