"""The order of many jobs, on which other processes may work too.

for index in (queue := Queue(len(jobs))): ...
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ..run_folder.lock import is_locked

AGAIN = 1.0  # seconds between checks of locked folders
_LOCKS = 50  # locked folders that are checked in that time


class Queue:
    """The next job, by its number: those in line, then those whose lock other processes have
    released."""

    def __init__(self, jobs: int) -> None:
        self._line = deque(range(jobs))
        self._locks: dict[int, Path] = {}
        self._waiters: set[int] = set()
        self._looked = self._resume = -math.inf

    def __bool__(self) -> bool:
        return bool(self._line or self._locks)

    def __iter__(self) -> Iterator[int]:
        """One job after another, waiting where all remaining ones are locked."""
        while self:
            if (index := self.next()) is None:
                time.sleep(AGAIN)
            else:
                yield index

    def next(self) -> int | None:
        """Remove and return one; None where all remaining ones are locked, none remains, or during
        a pause."""
        if time.monotonic() < self._resume:
            return None
        if self._line:
            return self._line.popleft()
        # A look at each of very many locks must not keep their disk busy.
        if time.monotonic() - self._looked < AGAIN * len(self._locks) / _LOCKS:
            return None
        for index, lock in self._locks.items():
            if not is_locked(lock):
                del self._locks[index]
                return index
        self._looked = time.monotonic()
        return None

    def clear(self) -> None:
        """Remove all."""
        self._line.clear()
        self._locks.clear()

    def again(self, index: int) -> None:
        """Put a job behind all others."""
        self._line.append(index)

    def pause(self, index: int) -> None:
        """Put a job behind all others, and give none out for a moment."""
        self.again(index)
        self._resume = time.monotonic() + AGAIN

    def hold(self, index: int, lock: Path) -> bool:
        """Put a job back until its lock is free; whether that is the first time."""
        self._locks[index] = lock
        first = index not in self._waiters
        self._waiters.add(index)
        return first
