"""A search of trainings that take a moment, and how it is begun in this process or in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reloop import main as run
from reloop.evaluation import evaluate_run
from reloop.evaluation.figures import canvas
from tests.conftest import HOME

OPTUNA = "Optuna is not installed (pip install -r requirements-dev.txt)"
WORDS = (
    "{task: linear, task.dims: 1, task.points: 3, model.n_embd: 16, model.n_head: 2, loops.b: 2, "
    "loops.T: 2, training.steps: 60, training.batch_size: 64, training.optimizer: adamw, "
    "training.log_every: 10, training.checkpoint_every: 20, training.decay: 0, "
    "curriculum.proportional: true, evaluation.prompts: 32, evaluation.resamples: 20, device: cpu}"
)
RATES = "space: {training.learning_rate: {low: 1.0e-8, high: 0.01, log: true}}"
Write = Callable[..., Path]


@pytest.fixture
def search_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """search_file("trials: 2", …): a file of these lines, with WORDS and RATES unless they have
    others, in the current folder, which is the test's own. No picture is drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate_run, "draw_evaluation", lambda *given: [])
    monkeypatch.setattr(canvas, "write_picture", lambda _, path, __: path.write_bytes(b""))

    def write(*lines: str) -> Path:
        keys = {line.partition(":")[0] for line in lines}
        others = {"words": f"words: {WORDS}", "space": RATES}
        text = [*lines, *(line for key, line in others.items() if key not in keys)]
        Path("mine.yaml").write_text("\n".join(text), encoding="utf-8")
        return tmp_path / "mine.yaml"

    return write


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """started("trials=2"): the search in a process of its own, which is ended with the test."""
    processes = []

    def start(*words: str) -> subprocess.Popen[str]:
        places = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, str(HOME / "run.py"), "search=mine.yaml", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def search(*words: str) -> int:
    """Carry out the search in this process, one trial at a time; the exit code."""
    return run.main(["search=mine.yaml", "jobs=1", *words])


def rows() -> list[dict[str, str]]:
    """The rows of trials.csv."""
    import csv

    (path,) = Path("runs").glob("search-*/trials.csv")
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def result() -> dict[str, Any]:
    """What result.json holds."""
    (path,) = Path("runs").glob("search-*/result.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
