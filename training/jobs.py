"""Several jobs at once, each in a process of its own; one that fails does not end the others, and
one whose folder another process holds waits until it is free.

outcomes = run_jobs(jobs, Workers(at_once=2, logs=Path("logs")))
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, HeldElsewhere, RunError, RunsFailed, one_line
from looplab.conf.plugins import failure
from looplab.conf.schema import Config

from .device import place
from .progress import on_terminal
from .run_folder.lock import is_locked
from .signals import Interrupted, deferred_signals

_LOOK = 1.0  # seconds between two looks at locked folders and at the work that is left
_BETWEEN_LINES = 30.0  # seconds, where there is no terminal
_FORMAT = "{percentage:3.0f}%|{bar}| {postfix}, {elapsed} so far, {remaining} left"


class Job(Protocol):
    """What runs in a process: the job and its result are pickled."""

    @property
    def name(self) -> str:
        """The name for the user."""

    def __call__(self) -> Any:
        """Run the job. An exception is its failure, except Interrupted and HeldElsewhere."""

    def describe(self, result: Any) -> str:
        """The result in a few words."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: its result, or why there is none; `stopped` is its exit code after a
    signal, `held` the lock of another process, for which it did not run, and who holds it."""

    result: Any = None
    failure: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)  # of a RunsFailed
    stopped: int = 0
    held: tuple[Path, str] | None = None


@dataclass(frozen=True)
class Workers:
    """How jobs are run: processes at once, the folder of their output, and the numbers of CUDA
    devices that they get in turn (none: all see all)."""

    at_once: int
    logs: Path
    devices: tuple[str, ...] = ()


def cores() -> int:
    """Cores that this process may use: those of its Slurm task, where it is one."""
    known = hasattr(os, "sched_getaffinity")
    number = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(number, int(asked)) if asked.isdecimal() and int(asked) else number


def processes_for(jobs: int, asked: int | None, config: Config) -> int:
    """How many of `jobs` trainings to run at once: as many as asked for, else one a core, as small
    models gain little from two; one on a GPU."""
    device = place(config.device, config.precision, config.backend).device
    return max(min(asked or (cores() if device.type == "cpu" else 1), jobs), 1)


def run_jobs(
    jobs: Sequence[Job], workers: Workers, left: Callable[[], float] | None = None
) -> list[Outcome]:
    """The outcomes of all jobs, in their order; prints a line for each that ends. `left` returns
    the seconds of work that are still to come; without it, all jobs count the same.

    With `at_once` 1 they run in this process, one after another, with their output. Otherwise each
    has a process with its share of the cores, whose output goes to `logs`. A job whose folder
    another process holds (HeldElsewhere) waits while others run, and is tried again when the folder
    is free. One whose process is lost, as when the kernel runs out of memory, is tried a second
    time after all others, from its last checkpoint.

    At Ctrl-C (KeyboardInterrupt here) or SIGTERM (SystemExit) every process is ended by SIGTERM, to
    save first, and waited for. For a job that was itself stopped by a signal, SystemExit is raised
    with its exit code. If this process is killed, those it started save and end too.
    """
    with _Progress(len(jobs), left) as progress:
        queue = _Queue(jobs, workers, progress)
        if workers.at_once == 1 and not workers.devices:
            queue.work_here()
        else:
            queue.work_in_processes()
    return queue.outcomes


class _Queue:
    """The jobs in line, those at work, and the outcomes of those that have ended."""

    def __init__(self, jobs: Sequence[Job], workers: Workers, progress: _Progress) -> None:
        self.jobs, self.workers, self.progress = jobs, workers, progress
        self.outcomes = [Outcome()] * len(jobs)
        self._line = deque(range(len(jobs)))
        self._locks: dict[int, Path] = {}  # of jobs whose folder another process holds
        self._waited: set[int] = set()
        self._lost: set[int] = set()
        devices = workers.devices
        self._devices = [*devices] * -(-workers.at_once // max(len(devices), 1))
        self._running: dict[Future[Outcome], _Working] = {}

    def work_here(self) -> None:
        """Run one job after another in this process."""
        while self._line or self._locks:
            if (index := self._next()) is None:
                time.sleep(_LOOK)
            else:
                self._take(index, _outcome_of(self.jobs[index]))

    def work_in_processes(self) -> None:
        """Run each job in a process; whatever ends this, no process is left."""
        self.workers.logs.mkdir(parents=True, exist_ok=True)
        try:
            while self._line or self._locks or self._running:
                while len(self._running) < self.workers.at_once:
                    if (index := self._next()) is None:
                        break
                    self._start(index)
                done, _ = wait(self._running, _LOOK, FIRST_COMPLETED)
                if not self._running:
                    time.sleep(_LOOK)  # all wait for other processes
                for future in done:
                    self._end(future)
                self.progress.look()
        finally:
            self._stop()

    def _next(self) -> int | None:
        """Remove and return a job: the next in line, else one whose lock is free."""
        if self._line:
            return self._line.popleft()
        for index, lock in self._locks.items():
            if not is_locked(lock):
                del self._locks[index]
                return index
        return None

    def _start(self, index: int) -> None:
        device = self._devices.pop(0) if self._devices else ""
        threads = max(1, cores() // self.workers.at_once)
        log = self.workers.logs / f"{_file_name(self.jobs[index].name)}.txt"
        before = {*multiprocessing.active_children()}
        pool = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), _begin, (threads, log, device)
        )
        with deferred_signals() as noted, _masked():
            future = pool.submit(_outcome_of, self.jobs[index])
            processes = {*multiprocessing.active_children()} - before
            self._running[future] = _Working(index, pool, processes, log, device)
        if noted:  # only now is there somebody who would end the process
            signal.raise_signal(noted[0])

    def _end(self, future: Future[Outcome]) -> None:
        working = self._running.pop(future)
        working.pool.shutdown()
        if working.device:
            self._devices.append(working.device)
        try:
            outcome = future.result()
        except BrokenProcessPool:
            self._lose(working)
            return
        except Exception as error:  # what cannot be pickled
            outcome = Outcome(failure=f"{type(error).__name__}: {one_line(error)}")
        self._take(working.index, outcome)

    def _take(self, index: int, outcome: Outcome) -> None:
        """Keep the outcome of a job that ended, print its line, or put a held one back."""
        job = self.jobs[index]
        if outcome.held:
            self._locks[index], holder = outcome.held
            if index not in self._waited:
                self.progress.write(f"{job.name}: in use by {holder}, waiting")
            self._waited.add(index)
            return
        if outcome.stopped:
            raise SystemExit(outcome.stopped)
        self.outcomes[index] = outcome
        failed = outcome.failure
        self.progress.end(
            f"{job.name}: {f'failed: {failed}' if failed else job.describe(outcome.result)}"
        )

    def _lose(self, working: _Working) -> None:
        index, name = working.index, self.jobs[working.index].name
        how = working.how_it_ended()
        if index in self._lost:
            reason = f"tried twice: its process {how}; {working.log} has more"
            self._take(index, Outcome(failure=reason))
            return
        self._lost.add(index)
        self._line.append(index)
        self.progress.write(f"{name}: its process {how}, it is tried once more")

    def _stop(self) -> None:
        """End every process by SIGTERM, which saves first, and wait for them, whatever a second
        Ctrl-C says."""
        try:
            with deferred_signals():
                for working in self._running.values():
                    for process in working.processes:
                        process.terminate()
                for working in self._running.values():
                    working.pool.shutdown(cancel_futures=True)
                self._running.clear()
        except KeyboardInterrupt:  # it came before this
            self._stop()


@dataclass(frozen=True)
class _Working:
    """A job at work: its pool of one process, and the CUDA device that it has, if any."""

    index: int
    pool: ProcessPoolExecutor
    processes: set[multiprocessing.process.BaseProcess]
    log: Path
    device: str

    def how_it_ended(self) -> str:
        """How its process ended, as text."""
        codes = [process.exitcode for process in self.processes if process.exitcode]
        return describe_exit(codes[0]) if codes else "could not be started"


def _outcome_of(job: Job) -> Outcome:
    """Run the job in this process."""
    try:
        return Outcome(result=job())
    except Interrupted as stop:
        print(stop, flush=True)
        return Outcome(stopped=stop.exit_code)
    except HeldElsewhere as held:
        return Outcome(held=(held.lock, held.holder))
    except RunsFailed as failed:
        return Outcome(failure=str(failed), reasons=failed.reasons)
    except (RunError, ConfigError, OSError) as error:
        return Outcome(failure=str(error))
    except Exception as error:
        return Outcome(failure=failure(error) or f"{type(error).__name__}: {one_line(error)}")


def _begin(threads: int, log: Path, device: str) -> None:
    """In a process of a job, before it: its threads, its output, the one CUDA device it sees."""
    if device:  # read when CUDA is first used
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    end_with_parent()
    torch.set_num_threads(threads)
    try:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:  # a full disk
        file = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)


def describe_exit(code: int) -> str:
    """How a process ended, as text, from its exit code."""
    names = {-number: number.name for number in signal.Signals}
    return f"was ended by {names[code]}" if code in names else f"ended with code {code}"


def end_with_parent() -> None:
    """In a started process: let it end by SIGTERM, before which a training saves, when the one that
    started it has ended. The terminal's Ctrl-C is for that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # outside of training there is nothing to save
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_for_parent() -> None:
        parent.join()
        while True:  # a training notes the first, and saves; what waits for a job ends by the next
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


@contextmanager
def _masked() -> Iterator[None]:
    """A process started within this context gets neither the terminal's Ctrl-C, nor Slurm's word
    that the time is up (SIGUSR2): the process that started it ends it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # started within, it would unblock Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _file_name(name: str) -> str:
    """A job's name as that of a file."""
    return "".join(each if each.isalnum() or each in "-=." else "_" for each in name)[:100]


class _Progress:
    """How far several jobs are: a bar on a terminal, else a line every half minute. A single job
    shows its own progress."""

    def __init__(self, jobs: int, left: Callable[[], float] | None) -> None:
        self._jobs, self._ended = jobs, 0
        self._left = left or (lambda: float(self._jobs - self._ended))
        self._total, self._start = max(self._left(), 1e-9), time.monotonic()
        self._looked = self._start
        self._pause = 0.0  # seconds between two looks, of whose time they may take 2 %
        self._lines = jobs > 1 and not on_terminal()
        self._bar: tqdm[Any] = tqdm(
            total=self._total,
            bar_format=_FORMAT,
            dynamic_ncols=True,
            leave=False,
            disable=jobs == 1 or self._lines,
        )

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.close()

    def write(self, line: str) -> None:
        """Print a line on stdout."""
        self._bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def end(self, line: str) -> None:
        """Count a job, and print its line."""
        self._ended += 1
        self.write(line)

    def look(self) -> None:
        """Show how much is left."""
        now = time.monotonic()
        if now - self._looked < max(_BETWEEN_LINES if self._lines else _LOOK, self._pause):
            return
        done = 1 - self._left() / self._total
        self._looked = time.monotonic()
        self._pause = 50 * (self._looked - now)
        self._bar.set_postfix_str(f"{self._ended} of {self._jobs} done", refresh=False)
        self._bar.update(max(done * self._total - self._bar.n, 0))
        if self._lines and self._ended < self._jobs:
            line = f"{self._ended} of {self._jobs} done, {done:.0%} of the work"
            if done > 0:
                seconds = int((now - self._start) * (1 - done) / done)
                line += f", about {tqdm.format_interval(seconds)} left"
            print(line, file=sys.stderr, flush=True)
