"""The cores of this process, and how many trainings they make at once.

processes_for(12, None, config)            # 2 on two cores; 1 on a GPU
"""

from __future__ import annotations

import os

from reloop.conf.schema import Config

from ..device import place


def affinity() -> set[int]:
    """The numbers of the cores on which this process may run."""
    known = hasattr(os, "sched_getaffinity")
    return os.sched_getaffinity(0) if known else set(range(os.cpu_count() or 1))


def cores() -> int:
    """Cores that this process may use: those of its Slurm task, where it is one."""
    number = len(affinity())
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(number, int(asked)) if asked.isdecimal() and int(asked) else number


def processes_for(jobs: int, asked: int | None, config: Config) -> int:
    """How many of `jobs` trainings to run at once: as many as asked for, else one a core, as small
    models gain little from two; one on a GPU."""
    return max(min(asked or (cores() if is_on_cpu(config) else 1), jobs), 1)


def is_on_cpu(config: Config) -> bool:
    """Whether the CPU trains a configuration."""
    return place(config.device, config.precision, config.backend).device.type == "cpu"
