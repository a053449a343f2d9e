"""`action=diff`: what runs differ in."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.main import main
from reloop.training.run_folder.find import runs_in

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *runs: Path) -> list[list[str]]:
    assert main(["action=diff", f"runs=[{','.join(map(str, runs))}]"]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_settings_and_results_that_differ_are_shown(folder: Path, capsys: Capture) -> None:
    linear, first, second = sorted(runs_in(folder), key=lambda path: path.name)
    lines = shown(capsys, linear, first)
    assert ["settings", linear.name, first.name] in lines
    assert ["training.steps", "50", "40"] in lines
    assert ["task.name", "linear", "sparse_linear"] in lines
    assert ["task.settings.sparsity", "-", "2"] in lines
    assert ["step", "50", "40"] in lines
    assert not any(line[:1] == ["model.n_embd"] for line in lines)
    same = shown(capsys, first, second)
    assert ["made", "with:", "the", "same", "in", "all"] in same


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "runs must name run folders"),
        (["runs=nowhere"], "runs cannot hold 'nowhere': it is no run folder"),
    ],
)
def test_mistakes_are_one_line(
    runs: list[str], message: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["action=diff", *runs]) == 2
    assert message in capsys.readouterr().err


def test_one_run_differs_from_nothing(folder: Path, capsys: Capture) -> None:
    assert main(["action=diff", f"runs={runs_in(folder)[0]}"]) == 2
    assert "runs must name at least two run folders, got 1" in capsys.readouterr().err
