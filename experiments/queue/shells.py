"""The commands on this machine that work on the same runs, so that they share its cores.

with counted(logs, workers=2) as shells: shells.workers()      # 4, where another has two as well
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reloop.training.run_folder.lock import holder_of, holding, is_locked

_NAME = re.compile(r"\.shell-(?P<host>.+)-(?P<pid>\d+)-(?P<workers>\d+)\.lock")


class Shells:
    """Those in a folder: each has a lock there, named by machine, process and number of workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def workers(self) -> int:
        """The worker processes of all commands that run on this machine now."""
        total = 0
        for path in self._folder.glob(".shell-*.lock"):
            match = _NAME.fullmatch(path.name)
            if match is None or match["host"] != socket.gethostname():
                continue
            if is_locked(path):
                total += int(match["workers"])
            else:  # of one that was killed
                holder_of(path).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        return total


@contextmanager
def counted(folder: Path, workers: int) -> Iterator[Shells]:
    """Within this context the command counts, with so many workers."""
    part = f"shell-{socket.gethostname()}-{os.getpid()}-{workers}"
    with holding(folder, part):
        yield Shells(folder)
    (folder / f".{part}.lock").unlink(missing_ok=True)
