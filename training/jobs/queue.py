"""Which of many jobs is next, where other processes may be at work on the same ones.

for index in (queue := Queue(len(jobs))): ...
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ..run_folder.lock import is_locked

AGAIN = 1.0  # seconds between looks at folders that others hold


class Queue:
    """Which job is next, by its number: those in line, then those that other processes held and
    have let go of."""

    def __init__(self, jobs: int) -> None:
        self._line = deque(range(jobs))
        self._held: dict[int, Path] = {}
        self._told: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._line or self._held)

    def __iter__(self) -> Iterator[int]:
        """One after another, waiting where all that are left are held."""
        while self:
            if (index := self.next()) is None:
                time.sleep(AGAIN)
            else:
                yield index

    def next(self) -> int | None:
        """Take one out; None where all that are left are held, or none is left."""
        if self._line:
            return self._line.popleft()
        for index, lock in self._held.items():
            if not is_locked(lock):
                del self._held[index]
                return index
        return None

    def again(self, index: int) -> None:
        """Put one behind all others."""
        self._line.append(index)

    def hold(self, index: int, lock: Path) -> bool:
        """Put one back until the lock that it needs is free; whether that is the first time."""
        self._held[index] = lock
        first = index not in self._told
        self._told.add(index)
        return first
