"""What other processes do for a search: read from its journal and the locks of its trials."""

from __future__ import annotations

import multiprocessing
import os
import socket

from reloop.training.jobs.processes import Watch
from reloop.training.jobs.worker import Held, Outcome
from reloop.training.run_folder.holder import describe, read_holder
from reloop.training.run_folder.lock import holder_of, is_locked

from .study import Study


class SearchWatch(Watch):
    """A job is begun while there is a trial to make, or one whose process is gone. Each other one
    waits for one of those that other processes make, and begins if that process ends before it."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._awaited: dict[int, int] = {}  # trials by job

    def known(self, index: int) -> Outcome | Held | None:
        trials = self._study.trials()
        running = [each.number for each in trials if each.state == "running"]
        held = [number for number in running if is_locked(self._study.lock_of(number))]
        if len(trials) < self._study.search.trials or len(held) < len(running):
            return None
        others = [number for number in held if not self._is_own(number)]
        awaited = self._awaited.pop(index, None)
        if awaited not in others:
            free = [number for number in others if number not in self._awaited.values()]
            if not free:
                return Outcome()
            awaited = free[0]
        self._awaited[index] = awaited
        lock = self._study.lock_of(awaited)
        return Held(describe(read_holder(holder_of(lock))), lock)

    def _is_own(self, number: int) -> bool:
        """Whether a process that this one started makes a trial."""
        holder = read_holder(holder_of(self._study.lock_of(number)))
        own = {os.getpid(), *(child.pid for child in multiprocessing.active_children())}
        return bool(holder and holder["host"] == socket.gethostname() and holder["pid"] in own)
