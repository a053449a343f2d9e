"""A grid as a job array: submitit's local executor and small scripts stand in for Slurm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from looplab import main as run
from looplab.experiments import grid
from looplab.training.run_folder.status import status_of
from tests.training.stopping.killed import until

_GRID = [
    *("task=linear", "task.dims=2", "task.points=6", "model.n_embd=16", "model.n_head=2"),
    *("loops.b=4", "loops.T=2", "training.batch_size=16", "evaluation.prompts=32"),
    *("evaluation.resamples=20", "training.learning_rate=1e-3,3e-3", "seed=0,1"),
]


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def _script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def _weights(runs: Path, step: int) -> dict[str, bytes]:
    return {
        path.name: next(path.glob(f"checkpoints/*{step}.safetensors")).read_bytes()
        for path in runs.glob("linear-*")
    }


@pytest.mark.slow
def test_the_tasks_of_an_array_end_as_a_grid_here(
    tmp_path: Path,
    scripts: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where their time is up on the way: they go back into the line."""
    submitit = pytest.importorskip("submitit")
    _script(scripts, "sbatch", "")
    monkeypatch.setattr(grid, "_CLUSTER", "local")
    jobs: list[Any] = []
    submitted = submitit.AutoExecutor.submit_array

    def noted(*given: Any) -> list[Any]:
        jobs.extend(submitted(*given))
        return jobs

    monkeypatch.setattr(submitit.AutoExecutor, "submit_array", noted)
    array = tmp_path / "array"
    words = ["-m", *_GRID, "training.steps=200"]
    assert run.main([*words, "engine.pack=2", "engine=slurm", f"folder={array}"]) == 0
    assert "4 of 4 runs in 2 tasks" in capsys.readouterr().out
    until(lambda: any(status_of(path)["step"] for path in array.glob("linear-*")))
    for job in jobs:
        job._interrupt()
    states = [status_of(path)["state"] for path in array.glob("linear-*")]
    assert states != ["finished"] * 4
    until(lambda: [status_of(p)["state"] for p in array.glob("linear-*")] == ["finished"] * 4)
    assert run.main([*words, "engine=slurm", f"folder={array}"]) == 0
    assert "4 done, 0 failed" in capsys.readouterr().out
    assert run.main([*words, "jobs=2", f"folder={tmp_path / 'here'}"]) == 0
    assert _weights(array, 200) == _weights(tmp_path / "here", 200)


def test_without_slurm_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert run.main(["-m", *_GRID, "engine=slurm", f"folder={tmp_path / 'runs'}"]) == 2
    assert capsys.readouterr().err == (
        "run.py: engine cannot be slurm: this machine has no sbatch\n"
    )
    assert not (tmp_path / "runs").exists()
