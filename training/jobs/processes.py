"""Several jobs at once, each in its own process; one that fails does not end the others, and one
whose folder another process holds waits until it is free. (A pool of concurrent.futures is broken
by one killed process.)

outcomes = run_jobs(jobs, Workers(at_once=2, logs=Path("logs")))
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from ..signals import deferred_signals
from .bar import Bar
from .cores import cores
from .queue import AGAIN, Queue
from .worker import Held, Job, Lost, Working, run_job, start
from .worker import Outcome as Outcome


class Watch:
    """What else is known of the jobs: a subclass knows more."""

    def known(self, index: int) -> Outcome | Held | None:
        """A job's outcome, where it needs no process since another one has done it meanwhile;
        `Held` where another process is at work on it."""
        return None

    def ended(self, index: int, outcome: Outcome) -> None:
        """Called when a job has ended here."""

    def wait_for(self) -> str:
        """What jobs must wait for before one is begun here, as text; empty if nothing."""
        return ""

    def threads(self, index: int) -> int | None:
        """The threads of a job; None for an equal share of the cores."""
        return None

    def log_name(self, index: int) -> str:
        """The name of the file with the output of a job's process."""
        return f"{index:03d}"

    left: Callable[[], float] | None = None  # seconds of work that are still to come


@dataclass(frozen=True)
class Workers:
    """How jobs are run: processes at once, the folder of their output, the numbers of CUDA devices
    that they get in turn (none: all see all), and whether a failure ends the rest."""

    at_once: int
    logs: Path
    devices: tuple[str, ...] = ()
    stop_on_failure: bool = False


def run_jobs(jobs: Sequence[Job], workers: Workers, watch: Watch | None = None) -> list[Outcome]:
    """The outcomes of all jobs, in their order; prints a line for each that ends.

    With `at_once` 1 they run in this process, one after another, with their output. Otherwise each
    has a process with its share of the threads, whose output goes to `logs`. A job whose folder
    another process holds (HeldElsewhere) waits while others run, and is tried again when the folder
    is free. One whose process is lost, as when the kernel runs out of memory, is tried a second
    time after all others, from its last checkpoint. After a failure with `stop_on_failure` those
    that run are stopped as at a signal; jobs that did not end have an empty outcome.

    At Ctrl-C (KeyboardInterrupt here) or SIGTERM (SystemExit) every process is ended by SIGTERM, to
    save first, and waited for. For a job that was itself stopped by a signal, SystemExit is raised
    with its exit code. If this process is killed, those it started save and end too.
    """
    watch = watch or Watch()
    with Bar(len(jobs), watch.left) as bar:
        queue = _Outcomes(jobs, workers, watch, bar)
        if workers.at_once == 1 and not workers.devices:
            _one_by_one(queue)
            return queue.outcomes
        with deferred_signals() as signals, _alarm() as alarm:
            workers.logs.mkdir(parents=True, exist_ok=True)
            pool = _Pool(queue)
            exit_code = 0
            try:
                while not (exit_code or signals) and (pool.queue or pool.running):
                    pool.start_more()
                    if pool.running or pool.queue:
                        exit_code = pool.read_answers(alarm)
            finally:
                pool.stop()
    if signals:
        exit_code = 128 + signals[0]
    if exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if exit_code:
        raise SystemExit(exit_code)
    return queue.outcomes


class _Outcomes:
    """The jobs in line and the outcomes of the ended ones."""

    def __init__(self, jobs: Sequence[Job], workers: Workers, watch: Watch, bar: Bar) -> None:
        self.jobs, self.workers, self.bar = jobs, workers, bar
        self.outcomes = [Outcome()] * len(jobs)
        self.queue = Queue(len(jobs))
        self._watch, self.log_name, self.threads = watch, watch.log_name, watch.threads
        self._waited = False

    def needed(self, index: int) -> bool:
        """Whether a job needs to be run here now."""
        found = self._watch.known(index)
        if isinstance(found, Held):
            self.hold(index, found)
        elif found is not None:
            self._end(index, found)
        elif reason := self._watch.wait_for():
            self.queue.pause(index)
            if not self._waited:
                self._waited = True
                self.bar.write(f"waiting: {reason}")
            return False
        return found is None

    def end(self, index: int, outcome: Outcome) -> None:
        """Keep the outcome of a job that ended here."""
        self._watch.ended(index, outcome)
        self._end(index, outcome)

    def hold(self, index: int, held: Held) -> None:
        """Let a job wait until its lock is free."""
        if self.queue.hold(index, held.lock):
            self.bar.write(f"{self.jobs[index].name}: in use by {held.holder}, waiting")

    def _end(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index] = outcome
        job, failure = self.jobs[index], outcome.failure
        text = f"failed: {failure}" if failure else job.describe(outcome.result)
        self.bar.end(f"{job.name}: {text}")
        if failure and self.workers.stop_on_failure:
            self.queue.clear()


def _one_by_one(queue: _Outcomes) -> None:
    for index in queue.queue:
        if not queue.needed(index):
            continue
        with _threads(queue.threads(index)):
            answer = run_job(queue.jobs[index])
        if isinstance(answer, Held):
            queue.hold(index, answer)
        elif answer.stopped:
            raise SystemExit(answer.stopped)
        else:
            queue.end(index, answer)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Within this context torch has so many threads; None leaves them as they are."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Pool:
    """The running processes."""

    def __init__(self, outcomes: _Outcomes) -> None:
        self.queue, self._outcomes, self._workers = outcomes.queue, outcomes, outcomes.workers
        self.running: dict[Any, Working] = {}
        self._threads = max(1, cores() // self._workers.at_once)
        self._retries: set[int] = set()
        devices = self._workers.devices
        self._devices = [*devices] * -(-self._workers.at_once // max(len(devices), 1))
        self._device_of: dict[int, str] = {}

    def start_more(self) -> None:
        """Start processes up to the limit, if there are jobs for them."""
        while self._has_room and (index := self.queue.next()) is not None:
            if not self._outcomes.needed(index):
                continue
            device = self._devices.pop(0) if self._devices else ""
            self._device_of[index] = device
            try:
                job, log = self._outcomes.jobs[index], self._log(index)
                threads = self._outcomes.threads(index) or self._threads
                working = start(index, job, threads, log, device)
            except (EOFError, OSError) as error:
                self._lose(index, f"could not be started ({error or 'its server was killed'})")
            else:
                self.running[working.pipe] = working

    def read_answers(self, alarm: int) -> int:
        """Wait for an answer, a signal, a folder that may be free or the next look at the progress,
        and process the answers; the exit code of a job that was stopped by a signal, else 0."""
        ready = wait([alarm, *self.running], AGAIN)
        for pipe in ready:
            if pipe == alarm:
                os.read(alarm, 4096)
                continue
            working = self.running.pop(pipe)
            index, answer = working.index, working.answer()
            if isinstance(answer, Lost):
                self._lose(index, answer.how)
                continue
            self._free_device(index)
            if isinstance(answer, Held):
                self._outcomes.hold(index, answer)
            elif answer.stopped:
                return answer.stopped
            else:
                self._end(index, answer)
        self._outcomes.bar.look()
        return 0

    def stop(self) -> None:
        """End every process, which saves first, and wait for them."""
        for working in self.running.values():
            working.stop("stopped by the process that started this one")
        for working in self.running.values():
            working.answer()

    @property
    def _has_room(self) -> bool:
        return len(self.running) < self._workers.at_once

    def _lose(self, index: int, how: str) -> None:
        self._free_device(index)
        if index in self._retries:
            failure = f"tried twice: its process {how}; {self._log(index)} has more"
            self._end(index, Outcome(failure=failure))
            return
        self._retries.add(index)
        self.queue.again(index)
        name = self._outcomes.jobs[index].name
        self._outcomes.bar.write(f"{name}: its process {how}, it is tried once more")

    def _end(self, index: int, outcome: Outcome) -> None:
        self._outcomes.end(index, outcome)
        if outcome.failure and self._workers.stop_on_failure:
            self.stop()
            self.running.clear()

    def _free_device(self, index: int) -> None:
        if device := self._device_of.pop(index, ""):
            self._devices.append(device)

    def _log(self, index: int) -> Path:
        return self._workers.logs / f"{self._outcomes.log_name(index)}.txt"


@contextmanager
def _alarm() -> Iterator[int]:
    """A file descriptor that becomes readable when a signal arrives."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    is_main = threading.current_thread() is threading.main_thread()  # signals arrive only there
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False) if is_main else -1
    try:
        yield reader
    finally:
        if is_main:
            signal.set_wakeup_fd(previous)
        os.close(reader)
        os.close(writer)
