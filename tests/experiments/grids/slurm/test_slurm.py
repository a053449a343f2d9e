"""A grid as a Slurm job array: killed, requeued, out of time and cancelled, and in the end the same
weights as without."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reloop.training.run_folder.status import last_record, status_of
from tests.conftest import HOME

from .one_node import Slurm

pytestmark = pytest.mark.slow

_GRID = [
    *("task=linear", "task.dims=2", "task.points=6", "model.n_embd=16", "model.n_head=2"),
    *("loops.b=4", "loops.T=2", "training.steps=3000", "training.batch_size=16"),
    *("training.checkpoint_every=100", "training.log_every=20", "evaluation.prompts=32"),
    *("evaluation.resamples=20", "training.learning_rate=1e-3,3e-3", "seed=0,1,2,3"),
]


def _run(words: list[str], folder: Path, slurm: Slurm | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HOME / "run.py"), *words],
        cwd=folder,
        env=slurm.environment if slurm else None,
        text=True,
        capture_output=True,
        timeout=600,
    )


def _submitted(words: list[str], folder: Path, slurm: Slurm) -> str:
    """Submit, and return the array's number."""
    done = _run(["-m", *words, "engine=slurm"], folder, slurm)
    assert done.returncode == 0, done.stderr
    match = re.match(r"Slurm array (\d+): ", done.stdout)
    assert match, done.stdout
    return match[1]


def _weights(folder: Path, step: int = 3000) -> dict[str, bytes]:
    """The last checkpoint's weights of each run."""
    found = {}
    for run in sorted((folder / "runs").glob("linear-*")):
        assert status_of(run)["state"] == "finished"
        (path,) = (run / "checkpoints").glob(f"*{step}.safetensors")
        found[run.name] = path.read_bytes()
    return found


def _until(there: object, seconds: float = 120) -> None:
    assert callable(there)
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def test_an_array_that_is_killed_requeued_and_out_of_time_ends_as_one_that_is_not(
    slurm: Slurm, tmp_path: Path
) -> None:
    here, undisturbed = tmp_path / "slurm", tmp_path / "local"
    here.mkdir()
    undisturbed.mkdir()
    start = time.monotonic()
    array = _submitted(_GRID, here, slurm)
    assert time.monotonic() - start < 60
    again = _run(["-m", *_GRID, "engine=slurm"], here, slurm)
    assert again.returncode == 1
    assert "in Slurm's line already" in again.stderr
    assert again.stderr.count("\n") == 1

    runs = here / "runs"
    (grid,) = runs.glob("grid-*")

    def training() -> dict[str, Path]:
        """Runs at work, by the number of their task."""
        found = {}
        for index, member in enumerate(json.loads((grid / "grid.json").read_text())["members"]):
            path = here / member["run"]
            step = last_record(path).get("step", 0)
            if status_of(path)["state"] == "running" and 100 < step < 2000:
                found[str(index)] = path
        return found

    _until(lambda: len(training()) == 2)
    killed, timed_out = training().items()
    # As Slurm does before the end of a task's time; scancel asks again while the task is requeued.
    words = ["scancel", "--signal=USR2", f"{array}_{timed_out[0]}"]
    with subprocess.Popen(words, env=slurm.environment) as scancel:
        _until(lambda: status_of(timed_out[1])["state"] == "interrupted")
        scancel.kill()
    holder = json.loads((killed[1] / ".holder.json").read_text())
    os.kill(holder["pid"], signal.SIGKILL)
    slurm.wait(f"{array}_{killed[0]}", "FAILED")
    _until(lambda: training().keys() - {killed[0], timed_out[0]})
    (requeued, *_) = training().keys() - {killed[0], timed_out[0]}
    slurm.run("scontrol", "requeue", f"{array}_{requeued}")

    shown = _run(["action=status", f"grid={grid}"], here, slurm).stdout
    assert "8 runs: " in shown
    assert "failed" in shown

    def is_over() -> bool:
        states = slurm.run("squeue", "--noheader", "--array", "--states=all", "--format=%T",
                           f"--jobs={array}").split()  # fmt: skip
        return len(states) == 8 and set(states) <= {"COMPLETED", "FAILED"}

    _until(is_over, 300)
    # The same command submits what is missing: the killed one.
    second = _submitted(_GRID, here, slurm)
    assert second != array
    slurm.wait(second, "COMPLETED", seconds=120)
    assert _run(["-m", *_GRID, "jobs=2"], undisturbed, None).returncode == 0
    assert _weights(here) == _weights(undisturbed)
    assert (grid / "settings.csv").read_text() == next(
        (undisturbed / "runs").glob("grid-*/settings.csv")
    ).read_text()


def test_members_are_packed_and_cancelled(slurm: Slurm, tmp_path: Path) -> None:
    words = [word for word in _GRID if not word.startswith("training.steps")]
    words += ["training.steps=200000", "engine.pack=4", "engine.cpus=2"]
    array = _submitted(words, tmp_path, slurm)
    (grid,) = (tmp_path / "runs").glob("grid-*")
    runs = [
        tmp_path / member["run"]
        for member in json.loads((grid / "grid.json").read_text())["members"]
    ]
    _until(lambda: sum(status_of(run)["state"] == "running" for run in runs) == 2)
    done = _run(["action=cancel", f"grid={grid}"], tmp_path, slurm)
    assert done.stdout == f"cancelled: {array}; what was trained is saved\n"
    _until(lambda: not any(status_of(run)["state"] == "running" for run in runs))
    assert sum(status_of(run)["state"] == "interrupted" for run in runs) == 2
    again = _run(["action=cancel", f"grid={grid}"], tmp_path, slurm)
    assert again.stdout == "Slurm has nothing of this grid\n"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("engine.partition=nowhere", "Slurm refused: sbatch: error: Batch job submission failed: "
         "Invalid partition name specified"),
        ("engine.cpus=64", "Slurm refused: sbatch: error: Batch job submission failed: "
         "More processors requested than permitted"),
        ("engine.gpus=1", "Slurm refused: sbatch: error: Invalid generic resource"),
    ],
)  # fmt: skip
def test_what_slurm_refuses_is_one_line(
    slurm: Slurm, tmp_path: Path, word: str, message: str
) -> None:
    done = _run(["-m", *_GRID, "engine=slurm", word], tmp_path, slurm)
    assert done.returncode == 1
    assert done.stderr.startswith(f"run.py: {message}")
    assert done.stderr.count("\n") == 1


def test_without_slurm_a_line_says_so(tmp_path: Path) -> None:
    done = _run(["-m", *_GRID, "engine=slurm"], tmp_path, None)
    assert done.returncode == 2
    assert done.stderr == "run.py: engine cannot be slurm: this machine has no sbatch\n"
    assert not (tmp_path / "runs").exists()


def test_killed_thirty_times_over_slurm(slurm: Slurm, tmp_path: Path) -> None:
    """Processes of tasks are killed at random steps; the same command submits what is missing,
    until all are finished: every run once, with the weights of a local grid."""
    chance, undisturbed = random.Random(3), tmp_path / "local"
    words = [word for word in _GRID if not word.startswith("training.steps")]
    words.append("training.steps=1500")
    undisturbed.mkdir()
    assert _run(["-m", *words, "jobs=2"], undisturbed, None).returncode == 0
    expected, kills, grids = _weights(undisturbed, 1500), 0, 0
    while kills < 30:
        here = tmp_path / f"slurm-{grids}"
        here.mkdir()
        while (array := _next_array(words, here, slurm)) is not None:
            kills += _kill_until_it_ends(array, here, slurm, chance)
        assert _weights(here, 1500) == expected
        grids += 1
        print(f"{kills} kills, {grids} grids")


def _next_array(words: list[str], here: Path, slurm: Slurm) -> str | None:
    """Submit what is missing; the array's number, None where all is finished."""
    done = _run(["-m", *words, "engine=slurm"], here, slurm)
    assert done.returncode == 0, done.stderr
    if "are finished" in done.stdout:
        return None
    match = re.match(r"Slurm array (\d+): ", done.stdout)
    assert match, done.stdout
    return match[1]


def _kill_until_it_ends(array: str, here: Path, slurm: Slurm, chance: random.Random) -> int:
    """Kill a process that trains every other second or so; how many were killed."""
    kills, states = 0, {"PENDING"}
    asked = ("squeue", "--noheader", "--states=all", "--array", "--format=%T", f"--jobs={array}")
    while states & {"PENDING", "RUNNING", "COMPLETING"}:
        time.sleep(chance.uniform(0.5, 3))
        holders = list((here / "runs").glob("linear-*/.holder.json"))
        if holders:
            with contextlib.suppress(OSError, ValueError):
                os.kill(json.loads(chance.choice(holders).read_text())["pid"], signal.SIGKILL)
                kills += 1
        states = set(slurm.run(*asked).split())
    return kills
