"""The commands on this machine that work on the same runs, so that they share its cores.

with counted(logs, workers=2) as shells: shells.workers()      # 4, where another has two as well
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from reloop.training.jobs.cores import affinity
from reloop.training.run_folder.lock import holder_of, holding, is_locked

_NAME = re.compile(
    r"\.shell-(?P<host>.+)-(?P<began>\d+)-(?P<pid>\d+)-(?P<workers>\d+)-(?P<cores>[\w.]+)\.lock"
)


class _Shell(NamedTuple):
    """A command: when it began, its process, the number of its workers, and their cores."""

    began: int  # nanoseconds since 1970
    pid: int
    workers: int
    cores: str

    def shares_cores(self, other: _Shell) -> bool:
        """Whether both may use the same core. A Slurm task has its cores for itself."""
        if "slurm" in self.cores or "slurm" in other.cores:
            return self.cores == other.cores
        return bool(int(self.cores, 16) & int(other.cores, 16))


class Shells:
    """Those in a folder: each has a lock there, whose name describes it."""

    def __init__(self, folder: Path, own: _Shell) -> None:
        self._folder, self._own = folder, own

    def workers(self) -> int:
        """The worker processes, of this command and of others, that share its cores now."""
        return sum(shell.workers for shell in self._found())

    def workers_before(self) -> int:
        """Those of commands that began before this one."""
        return sum(shell.workers for shell in self._found() if shell < self._own)

    def _found(self) -> list[_Shell]:
        """The commands that share cores with this one, which is one of them."""
        found = []
        for path in self._folder.glob(".shell-*.lock"):
            match = _NAME.fullmatch(path.name)
            if match is None or match["host"] != socket.gethostname():
                continue
            if is_locked(path):
                began, pid, workers = map(int, match.group("began", "pid", "workers"))
                found.append(_Shell(began, pid, workers, match["cores"]))
            else:  # of one that was killed
                holder_of(path).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        return [shell for shell in found if shell.shares_cores(self._own)]


@contextmanager
def counted(folder: Path, workers: int) -> Iterator[Shells]:
    """Within this context the command counts, with so many workers."""
    own = _Shell(time.time_ns(), os.getpid(), workers, _cores())
    part = "-".join(("shell", socket.gethostname(), *map(str, own)))
    with holding(folder, part):
        yield Shells(folder, own)
    (folder / f".{part}.lock").unlink(missing_ok=True)


def _cores() -> str:
    """The cores of this process, as the bits of a hexadecimal number; or its Slurm task."""
    if job := os.environ.get("SLURM_JOB_ID"):
        return f"slurm{job}.{os.environ.get('SLURM_PROCID', '0')}"
    return f"{sum(1 << core for core in affinity()):x}"
