"""Submit the missing members of a grid as a Slurm job array."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import reloop
from reloop.conf.mistakes import RunError

from ..settings import EngineSettings
from .commands import Array, arrays_of, is_active, keep_array, last_line, states_of
from .task import run_task

_CLUSTER = "slurm"
_SAVE = 90  # seconds before the end at which a task is told to save
_HOME = Path(reloop.__file__).resolve().parents[1]


def submit(
    folder: Path,
    indices: Sequence[int],
    engine: EngineSettings,
    processes: int | None,
) -> Array:
    """Submit the members of these indices, `engine.pack` in a task, with the output in the grid's
    folder slurm/; the array. Raises RunError where an array of the same grid is still active, and
    with Slurm's words where it refuses."""
    states = states_of(arrays_of(folder))
    active = [index for index in indices if is_active(states.get(index, ""))]
    if active:
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
            jobs = executor.map_array(
                run_task,
                [str(folder)] * len(tasks),
                [list(task) for task in tasks],
                [processes] * len(tasks),
            )
    except (RuntimeError, OSError) as error:  # FailedJobError is a RuntimeError
        raise RunError(
            f"Slurm refused: {last_line(str(error)) or last_line(said.getvalue())}"
        ) from None
    array = Array(jobs[0].job_id.partition("_")[0], tuple(tasks))
    keep_array(folder, array)
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
