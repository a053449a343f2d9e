"""Mistakes in a search: one line, exit 2, and nothing written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reloop import main as run

from .conftest import Write


@pytest.mark.parametrize(
    ("line", "words", "problem"),
    [
        ("trials: 0", "", "trials must be at least 1"),
        ("trials: many", "", "trials must be a whole number"),
        ("sampler: grid", "", "sampler cannot be 'grid'"),
        ("objective: lst", "", "did you mean 'last'"),
        ("spcae: {}", "", "did you mean 'space'"),
        ("pruning: {rungs: [1.5]}", "", "pruning.rungs must be below 1"),
        ("pruning: {rung: [0.5]}", "", "did you mean 'rungs'"),
        ("pruning: true", "", "pruning must be a group of settings"),
        ("words: {seed: 1}", "", "words.seed"),
        ("words: [task=linear]", "", "words must be a group of settings"),
        ("words: {task: linnear}", "", "did you mean 'linear'"),
        ("search: other", "", "search is the file's name"),
        ("trials: [", "", "search cannot be mine.yaml"),
        ("trials: 2", "-m", "-m is for a grid"),
        ("trials: 2", "action=evaluate", "action has no meaning"),
        ("trials: 2", "task.pionts=5", "did you mean 'task.points'"),
        ("trials: 2", "seed=0,1", "seed must be a whole number"),
        ("trials: 2", "task.points=3,5", "task.points has several values"),
        ("trials: 2", "space.loops.b.low=1", "is for the file of a search"),
        ("trials: 2", "folder=mine.yaml", "folder must be a folder"),
    ],
)
def test_one_line_and_nothing_written(
    search_file: Write, capsys: pytest.CaptureFixture[str], line: str, words: str, problem: str
) -> None:
    search_file(line)
    assert run.main(["search=mine.yaml", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("run.py: ")
    assert said.err.count("\n") == 1
    assert problem in said.err
    assert said.out == ""
    assert [path.name for path in Path().iterdir()] == ["mine.yaml"]


def test_without_optuna_a_line_says_how_to_get_it(
    search_file: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_file("trials: 2")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run.main(["search=mine.yaml"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "pip install" in said.err
    assert not Path("runs").exists()


def test_help_names_the_searches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["search=rate", "--help"]) == 0
    said = capsys.readouterr().out
    assert "Searches\n  rate\n" in said
    assert "pruning.keep" in said
