"""Slurm's own commands, and the arrays of a grid. No torch here.

states_of(arrays_of(folder))       # {member: "RUNNING", …}
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reloop.conf.lazy import optional
from reloop.conf.mistakes import ConfigError, RunError
from reloop.training.run_folder.files import read_record, write_record

_KIND = "slurm arrays"
_ACTIVE = ("PENDING", "RUNNING", "CONFIGURING", "REQUEUED", "SUSPENDED")
_PATIENCE = 60.0  # seconds for an answer


@dataclass(frozen=True)
class Array:
    """A submitted job array: its number, and the members (by their index in the grid) of each of
    its tasks."""

    number: str
    tasks: tuple[tuple[int, ...], ...]


def check_slurm() -> None:
    """Raises ConfigError where this machine has no Slurm, or submitit is not installed."""
    if shutil.which("sbatch") is None:
        raise ConfigError("engine", "cannot be slurm: this machine has no sbatch")
    optional("engine", "submitit", "AutoExecutor", "submitit==1.5.4")


def run_slurm(*command: str) -> str:
    """The output of one of Slurm's commands. Raises RunError with its last words where it fails or
    is not there."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=_PATIENCE)
    except FileNotFoundError:
        raise RunError(f"this machine has no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{command[0]} did not answer within {_PATIENCE:.0f} s") from None
    if done.returncode:
        raise RunError(last_line(done.stderr) or f"{command[0]} ended with code {done.returncode}")
    return done.stdout


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [""])[-1]


def arrays_of(folder: Path) -> list[Array]:
    """The arrays of the grid in a folder, the oldest first."""
    content = read_record(_file(folder), _KIND).content or {"arrays": []}
    return [
        Array(str(each["number"]), tuple(map(tuple, each["tasks"]))) for each in content["arrays"]
    ]


def keep_array(folder: Path, array: Array) -> None:
    """Add a submitted array to those of the grid."""
    arrays = [*arrays_of(folder), array]
    plain = [
        {"number": each.number, "tasks": [list(task) for task in each.tasks]} for each in arrays
    ]
    write_record(_file(folder), _KIND, {"arrays": plain})


def states_of(arrays: Sequence[Array]) -> dict[int, str]:
    """Slurm's state of each member, by its index, of its last array that Slurm still knows. Raises
    RunError where Slurm does not answer."""
    states: dict[int, str] = {}
    for array in arrays:
        try:
            out = run_slurm(
                "squeue", "--noheader", "--array", "--states=all", "--format=%K %T",
                f"--jobs={array.number}",
            )  # fmt: skip
        except RunError as error:
            if "Invalid job id" in str(error):  # too long ago
                continue
            raise
        for line in out.splitlines():
            task, _, state = line.strip().partition(" ")
            task = "0" if task == "N/A" else task  # submitit makes no array of a single task
            if task.isdecimal() and int(task) < len(array.tasks):
                states |= dict.fromkeys(array.tasks[int(task)], state)
    return states


def is_active(state: str) -> bool:
    """Whether a task in this state will still do something."""
    return state in _ACTIVE


def cancel(arrays: Sequence[Array]) -> list[str]:
    """Cancel the arrays that have active tasks, and return their numbers."""
    active = [array.number for array in arrays if any(map(is_active, states_of([array]).values()))]
    if active:
        run_slurm("scancel", *active)
    return active


def _file(folder: Path) -> Path:
    return folder / "slurm" / "arrays.json"
