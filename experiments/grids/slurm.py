"""Grids as Slurm job arrays, by submitit: their submission, their state, and what a task does. No
torch here.

states_of(arrays_of(folder))       # {member: "RUNNING", …}
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import looplab
from looplab.conf.command import answered
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.training.run_folder.files import read_record, write_record

from .command import EngineSettings

_CLUSTER = "slurm"
_SAVE = 90  # seconds before the end at which a task is told to save
_HOME = Path(looplab.__file__).resolve().parents[1]
_KIND, _FILE = "slurm arrays", "slurm/arrays.json"
# The states in which a task will still do something.
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


def _run(*command: str) -> str:
    """The output of one of Slurm's commands. Raises RunError with its last words where it fails or
    is not there."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=_PATIENCE)
    except FileNotFoundError:
        raise RunError(f"this machine has no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{command[0]} did not answer within {_PATIENCE:.0f} s") from None
    if done.returncode:
        raise RunError(_last_line(done.stderr) or f"{command[0]} ended with code {done.returncode}")
    return done.stdout


def _last_line(text: str) -> str:
    """The last line that is not empty."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or [""])[-1]


def arrays_of(folder: Path) -> list[Array]:
    """The arrays of the grid in a folder, the oldest first."""
    content = read_record(folder / _FILE, _KIND).content or {"arrays": []}
    return [Array(each["number"], tuple(map(tuple, each["tasks"]))) for each in content["arrays"]]


def states_of(arrays: Sequence[Array]) -> dict[int, str]:
    """Slurm's state of each member, by its index, of its last array that Slurm still knows. Raises
    RunError where Slurm does not answer."""
    states: dict[int, str] = {}
    for array in arrays:
        try:
            out = _run(
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


def cancel(arrays: Sequence[Array]) -> list[str]:
    """Cancel the arrays that have active tasks, and return their numbers."""
    active = [each.number for each in arrays if {*_ACTIVE} & {*states_of([each]).values()}]
    if active:
        _run("scancel", *active)
    return active


def submit(
    folder: Path, indices: Sequence[int], engine: EngineSettings, processes: int | None
) -> Array:
    """Submit the members of these indices, `engine.pack` in a task, with the output in the grid's
    folder slurm/; the array. Raises RunError where an array of the same grid is still active, and
    with Slurm's words where it refuses."""
    states = states_of(arrays_of(folder))
    if active := [index for index in indices if states.get(index) in _ACTIVE]:
        raise RunError(
            f"{len(active)} of its runs are in Slurm's line already: action=status grid={folder} "
            f"shows them, action=cancel grid={folder} ends them"
        )
    tasks = [
        tuple(indices[start : start + engine.pack]) for start in range(0, len(indices), engine.pack)
    ]
    import submitit

    executor = submitit.AutoExecutor(folder / "slurm", _CLUSTER, slurm_max_num_timeout=10**6)
    executor.update_parameters(**_parameters(folder, engine, len(tasks)))
    said = io.StringIO()  # it prints what it raises
    try:
        with redirect_stderr(said):
            folders, asked = [str(folder)] * len(tasks), [processes] * len(tasks)
            jobs = executor.map_array(run_task, folders, list(map(list, tasks)), asked)
    except (RuntimeError, OSError) as error:  # FailedJobError is a RuntimeError
        reason = _last_line(str(error)) or _last_line(said.getvalue())
        raise RunError(f"Slurm refused: {reason}") from None
    array = Array(jobs[0].job_id.partition("_")[0], tuple(tasks))
    arrays = [*arrays_of(folder), array]
    write_record(folder / _FILE, _KIND, {"arrays": [asdict(each) for each in arrays]})
    return array


def _parameters(folder: Path, engine: EngineSettings, tasks: int) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, (str(_HOME), os.environ.get("PYTHONPATH", ""))))
    parameters: dict[str, Any] = {
        "name": folder.name,
        "timeout_min": engine.minutes,
        "cpus_per_task": engine.cpus,
        "mem_gb": engine.memory,
        "slurm_array_parallelism": min(engine.at_once, tasks),
        "slurm_signal_delay_s": min(_SAVE, engine.minutes * 30),
        "slurm_setup": [
            f"export PYTHONPATH={shlex.quote(path)}",
            f"export OMP_NUM_THREADS={engine.cpus}",
            *engine.setup,
        ],
    }
    if engine.gpus:
        parameters["gpus_per_node"] = engine.gpus
    for name in ("partition", "account"):
        if value := getattr(engine, name):
            parameters[f"slurm_{name}"] = value
    return parameters


def run_task(folder: str, indices: list[int], processes: int | None) -> None:
    """Train and evaluate these members of the grid in a folder, `processes` at once, as a local
    grid would, and write the grid's result where they were the last. Ends the process: with code 0,
    1 where a run failed. SIGUSR2, which comes before the task's time is up, saves every training
    and takes the task back into Slurm's line, from where it begins again with the same members."""
    time_is_up: list[int] = []

    def save(number: int, frame: FrameType | None) -> None:
        time_is_up.append(number)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGUSR2, save)

    from .run import run_part

    code = answered(
        "run.py",
        lambda: run_part(Path(folder), indices, processes),
        "stopped, with every training saved",
    )
    if code == 128 + signal.SIGTERM and time_is_up:
        print("the time is up: back into the line", flush=True)
        array, task = (os.environ.get(f"SLURM_ARRAY_{part}") for part in ("JOB_ID", "TASK_ID"))
        name = f"{array}_{task}" if array and task else os.environ["SLURM_JOB_ID"]
        _run("scontrol", "requeue", name)
        code = 0
    sys.exit(code)
