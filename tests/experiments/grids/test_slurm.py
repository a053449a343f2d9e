"""A grid as a job array: submitit's local executor and small scripts stand in for Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from looplab import main as run
from looplab.experiments.grids import slurm
from looplab.experiments.grids.slurm import Array, states_of
from looplab.training.run_folder.status import status_of
from tests.conftest import HOME
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
    pytest.importorskip("submitit")
    _script(scripts, "sbatch", "")
    _script(scripts, "squeue", "")
    monkeypatch.setattr(slurm, "_CLUSTER", "local")
    words = ["-m", *_GRID, "training.steps=200", "engine.pack=2"]
    assert run.main([*words, "engine=slurm", f"folder={tmp_path / 'array'}"]) == 0
    assert "4 of 4 runs in 2 tasks" in capsys.readouterr().out
    until(lambda: list((tmp_path / "array").glob("grid-*/settings.csv")))
    assert run.main([*words, "engine=slurm", f"folder={tmp_path / 'array'}"]) == 0
    assert "all 4 runs are finished" in capsys.readouterr().out
    assert run.main([*words[:-1], "jobs=2", f"folder={tmp_path / 'here'}"]) == 0
    assert _weights(tmp_path / "array", 200) == _weights(tmp_path / "here", 200)


@pytest.mark.slow
def test_when_its_time_is_up_a_task_saves_and_goes_back_into_the_line(
    tmp_path: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _script(scripts, "scontrol", f'echo "$@" > {tmp_path}/requeued')
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    words = [*_GRID, "training.steps=100000", f"folder={tmp_path}", "jobs=1"]
    grid = subprocess.Popen([sys.executable, "run.py", "-m", *words], cwd=HOME)
    until(lambda: list(tmp_path.glob("grid-*/grid.json")))
    grid.terminate()
    grid.wait()
    (folder,) = tmp_path.glob("grid-*")
    member = Path(json.loads((folder / "grid.json").read_text())["members"][0]["run"])
    code = (
        f"from looplab.experiments.grids.slurm import run_task\nrun_task({str(folder)!r}, [0], 1)"
    )
    task = subprocess.Popen([sys.executable, "-c", code], cwd=HOME)
    until(lambda: status_of(member)["state"] == "running")
    time.sleep(1)
    task.send_signal(signal.SIGUSR2)
    assert task.wait(60) == 0
    assert status_of(member)["state"] == "interrupted"
    assert (tmp_path / "requeued").read_text() == "requeue 17\n"


def test_states_are_those_of_each_task_s_members(scripts: Path) -> None:
    _script(scripts, "squeue", "echo '0 RUNNING'; echo '1 PENDING'")
    states = states_of([Array("5", ((0, 2), (1,)))])
    assert states == {0: "RUNNING", 2: "RUNNING", 1: "PENDING"}
    _script(scripts, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert states_of([Array("5", ((0, 2), (1,)))]) == {}


def test_without_slurm_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert run.main(["-m", *_GRID, "engine=slurm", f"folder={tmp_path / 'runs'}"]) == 2
    assert capsys.readouterr().err == (
        "run.py: engine cannot be slurm: this machine has no sbatch\n"
    )
    assert not (tmp_path / "runs").exists()
