"""Several jobs at once, each in its own process; one that fails does not end the others, and one
whose folder another process holds waits until it is free. (A pool of concurrent.futures is broken
by one killed process.)

outcomes = run_jobs(jobs, at_once=2, logs=Path("logs"))
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from reloop.conf.schema import Config

from ..device import place
from ..signals import deferred_signals
from .queue import AGAIN, Queue
from .worker import Held, Job, Lost, Working, run_job, start
from .worker import Outcome as Outcome


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(jobs: int, asked: int | None, config: Config) -> int:
    """How many of `jobs` trainings to run at once: as many as asked for, else one a core, as small
    models gain little from two; one on a GPU."""
    on_cpu = place(config.device, config.precision, config.backend).device.type == "cpu"
    return max(min(asked or (cores() if on_cpu else 1), jobs), 1)


def run_jobs(jobs: Sequence[Job], at_once: int, logs: Path) -> list[Outcome]:
    """The outcomes of all jobs, in their order; prints a line for each that ends.

    With `at_once` 1 they run in this process, one after another, with their output. Otherwise each
    has a process with its share of the threads, whose output goes to `logs`. A job whose folder
    another process holds (HeldElsewhere) waits while others run, and is tried again when the folder
    is free. One whose process is lost, as when the kernel runs out of memory, is tried a second
    time after all others, from its last checkpoint.

    At Ctrl-C (KeyboardInterrupt here) or SIGTERM (SystemExit) every process is ended by SIGTERM, to
    save first, and waited for. For a job that was itself stopped by a signal, SystemExit is raised
    with its exit code. If this process is killed, those it started save and end too.
    """
    if at_once == 1:
        return _one_by_one(jobs)
    with (
        deferred_signals() as signals,
        _alarm() as alarm,
        tqdm(total=len(jobs), unit="job", disable=None) as bar,
    ):
        logs.mkdir(parents=True, exist_ok=True)
        pool = _Pool(jobs, at_once, logs, bar)
        exit_code = 0
        try:
            while not (exit_code or signals) and (pool.queue or pool.running):
                pool.start_more()
                exit_code = pool.read_answers(alarm)
        finally:
            pool.stop()
    if signals:
        exit_code = 128 + signals[0]
    if exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if exit_code:
        raise SystemExit(exit_code)
    return pool.outcomes


def _one_by_one(jobs: Sequence[Job]) -> list[Outcome]:
    queue, outcomes = Queue(len(jobs)), [Outcome()] * len(jobs)
    with tqdm(total=len(jobs), unit="job", disable=True if len(jobs) == 1 else None) as bar:
        for index in queue:
            answer = run_job(jobs[index])
            if isinstance(answer, Held):
                _report_held(bar, jobs[index], answer, queue.hold(index, answer.lock))
            elif answer.stopped:
                raise SystemExit(answer.stopped)
            else:
                outcomes[index] = answer
                _report(bar, jobs[index], answer)
    return outcomes


class _Pool:
    """The running processes, and the outcomes of the ended ones."""

    def __init__(self, jobs: Sequence[Job], at_once: int, logs: Path, bar: tqdm[Any]) -> None:
        self.queue, self.outcomes = Queue(len(jobs)), [Outcome()] * len(jobs)
        self.running: dict[Any, Working] = {}
        self._jobs, self._at_once, self._logs, self._bar = jobs, at_once, logs, bar
        self._threads = max(1, cores() // at_once)
        self._retries: set[int] = set()

    def start_more(self) -> None:
        """Start processes up to the limit, if there are jobs for them."""
        while len(self.running) < self._at_once and (index := self.queue.next()) is not None:
            try:
                working = start(index, self._jobs[index], self._threads, self._log(index))
            except (EOFError, OSError) as error:
                self._lose(index, f"could not be started ({error or 'its server was killed'})")
            else:
                self.running[working.pipe] = working

    def read_answers(self, alarm: int) -> int:
        """Wait for an answer, a signal or a folder that may be free, and process the answers; the
        exit code of a job that was stopped by a signal, else 0."""
        has_room = len(self.running) < self._at_once
        ready = wait([alarm, *self.running], AGAIN if has_room and self.queue else None)
        for pipe in ready:
            if pipe == alarm:
                os.read(alarm, 4096)
                continue
            working = self.running.pop(pipe)
            index, answer = working.index, working.answer()
            if isinstance(answer, Lost):
                self._lose(index, answer.how)
            elif isinstance(answer, Held):
                first = self.queue.hold(index, answer.lock)
                _report_held(self._bar, self._jobs[index], answer, first)
            elif answer.stopped:
                return answer.stopped
            else:
                self._end(index, answer)
        return 0

    def stop(self) -> None:
        """End every process, which saves first, and wait for them."""
        for working in self.running.values():
            working.stop("stopped by the process that started this one")
        for working in self.running.values():
            working.answer()

    def _lose(self, index: int, how: str) -> None:
        if index in self._retries:
            failure = f"tried twice: its process {how}; {self._log(index)} has more"
            self._end(index, Outcome(failure=failure))
            return
        self._retries.add(index)
        self.queue.again(index)
        _write(self._bar, f"{self._jobs[index].name}: its process {how}, it is tried once more")

    def _end(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index] = outcome
        _report(self._bar, self._jobs[index], outcome)

    def _log(self, index: int) -> Path:
        return self._logs / f"{index:03d}.txt"


def _report(bar: tqdm[Any], job: Job, outcome: Outcome) -> None:
    bar.update()
    message = (
        job.describe(outcome.result) if outcome.result is not None else f"failed: {outcome.failure}"
    )
    _write(bar, f"{job.name}: {message}")


def _report_held(bar: tqdm[Any], job: Job, held: Held, first: bool) -> None:
    if first:
        _write(bar, f"{job.name}: in use by {held.holder}, waiting")


def _write(bar: tqdm[Any], line: str) -> None:
    bar.write(line, file=sys.stdout)
    sys.stdout.flush()


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
