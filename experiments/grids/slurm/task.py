"""What a task of a Slurm job array does: some members of a grid, as a local grid would.

Before its time is up it is sent SIGUSR2. Then every training saves, and the task goes back into
Slurm's line, from where it begins again with the same members.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from reloop.conf.command import answered

from .commands import run_slurm


def run_task(folder: str, indices: list[int], processes: int | None) -> None:
    """Train and evaluate these members of the grid in a folder, `processes` at once, and write the
    grid's result where they were the last. Ends the process: with code 0, 1 where a run failed."""
    time_is_up: list[int] = []

    def save(number: int, frame: FrameType | None) -> None:
        time_is_up.append(number)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGUSR2, save)

    def run() -> int:
        from ..run import run_part

        return run_part(Path(folder), indices, processes)

    code = answered("run.py", run, "stopped, with every training saved")
    if code == 128 + signal.SIGTERM and time_is_up:
        print("the time is up: back into the line", flush=True)
        run_slurm("scontrol", "requeue", _name())
        code = 0
    sys.exit(code)


def _name() -> str:
    """This task by the name that scontrol knows."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{part}") for part in ("JOB_ID", "TASK_ID"))
    return f"{array}_{task}" if array and task else os.environ["SLURM_JOB_ID"]
