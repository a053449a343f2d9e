"""Grids as Slurm job arrays, by submitit: a task trains members of the grid as a local grid would.

print(submit(grid, EngineSettings(name="slurm", minutes=240)))
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

import looplab
from looplab.conf.compose import commands
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, RunError
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of

from ..many_runs import Plan, Wanted, train_all
from .command import EngineSettings

if TYPE_CHECKING:
    from .grid import Grid

_CLUSTER = "slurm"
_BEFORE = 90  # seconds before the end at which a task goes back into the line
_HOME = Path(looplab.__file__).resolve().parents[1]


class Task:
    """A task of the array: trains and evaluates members, given by their words."""

    def __call__(self, members: Sequence[Sequence[str]], logs: str) -> None:
        """Raises RunError where runs failed, after the others."""
        configs = [commands(list(words))[0].config for words in members]
        wanted = [Wanted(run_folder(each).path.name, each, (each.evaluation,)) for each in configs]
        if failures := train_all(wanted, Plan(Path(logs))):
            raise RunError("; ".join(f"{path}: {why}" for path, why in failures.items()))

    def checkpoint(self, *args: Any) -> Any:
        """submitit asks, before the time is up, for the task that goes back into the line: the same
        one, whose runs go on from their last checkpoints."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *args)


def submit(grid: Grid, engine: EngineSettings) -> str:
    """Submit the members that are not finished, `engine.pack` in a task, with the output in the
    grid's folder slurm/; what was submitted, as text, empty where all are finished.

    Raises ConfigError where this machine has no Slurm or submitit is not installed, and RunError
    with Slurm's words where it refuses.
    """
    if shutil.which("sbatch") is None:
        raise ConfigError("engine", "cannot be slurm: this machine has no sbatch")
    submitit = optional("engine", "submitit", "AutoExecutor", "submitit==1.5.4")
    missing = [
        list(member.words)
        for member in grid.members
        if status_of(run_folder(member.config).path)["state"] != "finished"
    ]
    if not missing:
        return ""
    tasks = [missing[first : first + engine.pack] for first in range(0, len(missing), engine.pack)]
    said = io.StringIO()  # it prints what it raises
    try:
        with redirect_stderr(said):
            folder = grid.folder / "slurm"
            executor = submitit.AutoExecutor(folder, _CLUSTER, slurm_max_num_timeout=10**6)
            executor.update_parameters(**_parameters(grid.folder.name, engine, len(tasks)))
            logs = [str(grid.folder / "logs")] * len(tasks)
            jobs = executor.map_array(Task(), tasks, logs)
    except (RuntimeError, OSError) as error:  # FailedJobError is a RuntimeError
        lines = f"{said.getvalue()}\n{error}".splitlines()
        reason = next(line.strip() for line in reversed(lines) if line.strip())
        raise RunError(f"Slurm refused: {reason}") from None
    number = jobs[0].job_id.partition("_")[0]
    return (
        f"Slurm array {number}: {len(missing)} of {len(grid.members)} runs in {len(tasks)} "
        f"task{'s' * (len(tasks) > 1)}; squeue --job={number} shows them, the same command "
        "writes the result when they are done"
    )


def _parameters(name: str, engine: EngineSettings, tasks: int) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, (str(_HOME), os.environ.get("PYTHONPATH", ""))))
    parameters: dict[str, Any] = {
        "name": name,
        "timeout_min": engine.minutes,
        "cpus_per_task": engine.cpus,
        "mem_gb": engine.memory,
        "slurm_array_parallelism": min(engine.at_once, tasks),
        "slurm_signal_delay_s": min(_BEFORE, engine.minutes * 30),
        "slurm_setup": [
            f"export PYTHONPATH={shlex.quote(path)}",
            f"export OMP_NUM_THREADS={engine.cpus}",
            *engine.setup,
        ],
    }
    if engine.gpus:
        parameters["gpus_per_node"] = engine.gpus
    for key in ("partition", "account"):
        if value := getattr(engine, key):
            parameters[f"slurm_{key}"] = value
    return parameters
