"""Several jobs at once, each in a process of its own.

One that fails does not end the others. One whose folder another process holds waits until it is
free.

outcomes = run_jobs(jobs, at_once=2, logs=Path("logs"))
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, HeldElsewhere, RunError, one_line
from looplab.conf.plugins import failure
from looplab.conf.schema import Config

from .device import place
from .progress import BETWEEN_LINES, bar_file, on_terminal
from .run_folder.status import is_locked
from .signals import Interrupted, deferred_signals

_LOOK = 1.0  # seconds between two looks at locked folders, and at how far jobs are
_BAR = "{n_fmt} of {total_fmt} done |{bar}| {elapsed}"
_SPAWN = multiprocessing.get_context("spawn")


class Job(Protocol):
    """A job is run in a process, so that it and its result are pickled."""

    @property
    def name(self) -> str:
        """The name for the user."""

    def __call__(self) -> Any:
        """Run the job. An exception is its failure, except Interrupted and HeldElsewhere."""

    def describe(self, result: Any) -> str:
        """The result in a few words."""

    def progress(self) -> str:
        """How far it is, in a few words; empty where that is not known yet."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: its result, or why there is none; `stopped` is its exit code after a
    signal, `held` the lock of another process, for which it did not run, and who holds it."""

    result: Any = None
    failure: str = ""
    stopped: int = 0
    held: tuple[Path, str] | None = None


def cores() -> int:
    """Cores that this process may use: those of its Slurm task, where it is one."""
    known = hasattr(os, "sched_getaffinity")
    number = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(number, int(asked)) if asked.isdecimal() and int(asked) else number


def processes_for(jobs: int, asked: int | None, config: Config) -> int:
    """The number of trainings, of `jobs`, to run at once: as many as asked for, else one a core,
    since small models gain little from two; one on a GPU."""
    device = place(config.device, config.precision, config.backend).device
    return max(min(asked or (cores() if device.type == "cpu" else 1), jobs), 1)


def run_jobs(
    jobs: Sequence[Job], at_once: int, logs: Path, devices: Sequence[str] = ()
) -> list[Outcome]:
    """The outcomes of all jobs, in their order; prints a line for each that ends, and shows how far
    those in other processes are: on a terminal always, else in a line every half minute.

    With `at_once` 1 and no `devices` they run in this process, one after another, with their
    output. Otherwise each has a process with its share of the cores, whose output goes to the
    folder `logs`. The numbers of CUDA `devices` are given in turn. A job whose folder another
    process holds (HeldElsewhere) waits while others run, and is tried again when the folder is
    free. One whose process is lost, as when the kernel runs out of memory, has failed.

    At Ctrl-C (KeyboardInterrupt here) or SIGTERM (SystemExit) every process is ended by SIGTERM, to
    save first, and waited for. For a job that was itself stopped by a signal, SystemExit is raised
    with its exit code. If this process is killed, those it started save and end too.
    """
    # A job in this process shows its own progress.
    hidden = not on_terminal() or (at_once == 1 and not devices)
    with tqdm(
        total=len(jobs), bar_format=_BAR, leave=False, disable=hidden, file=bar_file()
    ) as bar:
        queue = _Queue(jobs, at_once, logs, devices, bar)
        queue.work()
    return queue.outcomes


class _Queue:
    """The jobs in line, those at work, and the outcomes of those that have ended."""

    def __init__(
        self, jobs: Sequence[Job], at_once: int, logs: Path, devices: Sequence[str], bar: tqdm[Any]
    ) -> None:
        self.jobs = jobs
        self.at_once = at_once
        self._bar = bar
        self.outcomes = [Outcome()] * len(jobs)
        self._in_processes = at_once > 1 or bool(devices)
        names = [re.sub(r"[^\w=.-]", "_", job.name)[:100] for job in jobs]
        self._logs = [logs / f"{name}.txt" for name in names]
        self._waiting = deque(range(len(jobs)))
        self._locks: dict[int, Path] = {}  # of jobs whose folder another process holds
        # Rounded up: every job at work finds a device, which has several where they are fewer.
        self._devices = list(devices) * -(-at_once // max(len(devices), 1))
        # By where a process sends its outcome: its job, and the CUDA device that it has, if any.
        self._running: dict[Connection, tuple[SpawnProcess, int, str]] = {}
        # By job: its line below the bar, and when a line on it may be printed where there is none.
        self._below: dict[int, tqdm[Any]] = {}
        self._next_line: dict[int, float] = {}

    def work(self) -> None:
        """Run all jobs; whatever ends this, no process is left."""
        try:
            while self._waiting or self._locks or self._running:
                index = self._next() if len(self._running) < self.at_once else None
                if index is None:
                    for receiver in wait(list(self._running), _LOOK):
                        assert isinstance(receiver, Connection)
                        self._collect(receiver)
                    self._show()
                elif self._in_processes:
                    self._start(index)
                else:
                    if len(self.jobs) > 1:
                        number = len(self.jobs) - len(self._waiting)
                        self._say(f"{number} of {len(self.jobs)}: {self.jobs[index].name}")
                    self._keep(index, _run(self.jobs[index]))
        finally:
            self._stop()

    def _show(self) -> None:
        """Show how far each running job is: below the bar, or in a line every half minute."""
        now = time.monotonic()
        width = shutil.get_terminal_size().columns
        self._bar.refresh()
        for _, index, _ in self._running.values():
            if not (far := self.jobs[index].progress()):
                continue
            if not self._bar.disable:
                self._below[index].set_description_str(
                    f"{far}  {self.jobs[index].name}"[: width - 1]
                )
            elif now >= self._next_line.get(index, now):
                self._next_line[index] = now + BETWEEN_LINES
                self._say(f"{self.jobs[index].name}: {far}")

    def _next(self) -> int | None:
        """Remove and return a job: the next in line, else one whose lock is free."""
        if self._waiting:
            return self._waiting.popleft()
        for index, lock in self._locks.items():
            if not is_locked(lock):
                del self._locks[index]
                return index
        return None

    def _start(self, index: int) -> None:
        log = self._logs[index]
        device = self._devices.pop(0) if self._devices else ""
        log.parent.mkdir(parents=True, exist_ok=True)
        # More threads than cores would slow each other down by far more than they gain.
        threads = max(1, cores() // self.at_once)
        receiver, sender = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(
            target=_run_in_process, args=(self.jobs[index], sender, threads, log, device)
        )
        # A signal between start and entry would leave a process that `_stop` does not know.
        with deferred_signals() as noted, _masked():
            process.start()
            self._running[receiver] = process, index, device
        self._below[index] = tqdm(
            bar_format="{desc}", leave=False, disable=self._bar.disable, file=bar_file()
        )
        sender.close()  # so that the end of the process is the end of the pipe
        if noted:  # only now is there somebody who would end the process
            signal.raise_signal(noted[0])

    def _collect(self, receiver: Connection) -> None:
        process, index, device = self._running[receiver]
        try:
            outcome = receiver.recv()
        except (EOFError, OSError):  # maybe in the middle of it
            process.join()
            how = f"its process {describe_exit(process.exitcode or 0)}"
            outcome = Outcome(failure=f"{how}; {self._logs[index]} has more")
        process.join()
        del self._running[receiver]
        self._below.pop(index).close()
        if device:
            self._devices.append(device)
        self._keep(index, outcome)

    def _keep(self, index: int, outcome: Outcome) -> None:
        """Keep the outcome of a job that ended, print its line, or put a held one back."""
        job = self.jobs[index]
        if outcome.held:
            self._locks[index], holder = outcome.held
            self._say(f"{job.name}: in use by {holder}, waiting")
            return
        if outcome.stopped:
            raise SystemExit(outcome.stopped)
        self.outcomes[index] = outcome
        failed = f"failed: {outcome.failure}" if outcome.failure else ""
        self._say(f"{job.name}: {failed or job.describe(outcome.result)}")
        self._bar.update()

    def _say(self, line: str) -> None:
        """Print a line above the bar, on stdout."""
        self._bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def _stop(self) -> None:
        """End every process by SIGTERM, which saves first, and wait for them, whatever a second
        Ctrl-C says."""
        try:
            with deferred_signals():
                processes = [process for process, _, _ in self._running.values()]
                for process in processes:
                    process.terminate()
                for process in processes:
                    process.join()
                self._running.clear()
        except KeyboardInterrupt:  # it came before this
            self._stop()


def _run(job: Job) -> Outcome:
    """Run the job in this process."""
    try:
        return Outcome(result=job())
    except Interrupted as stop:
        print(stop, flush=True)
        return Outcome(stopped=stop.exit_code)
    # Before RunError, of which it is one kind.
    except HeldElsewhere as held:
        return Outcome(held=(held.lock, held.holder))
    except (RunError, ConfigError, OSError) as error:
        return Outcome(failure=str(error))
    except Exception as error:
        return Outcome(failure=failure(error) or f"{type(error).__name__}: {one_line(error)}")


def _run_in_process(job: Job, sender: Connection, threads: int, log: Path, device: str) -> None:
    """Run the job, in a process of its own, with so many threads, with its output in `log` and the
    one CUDA device that it sees, and send its outcome."""
    if device:  # read when CUDA is first used
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    end_with_parent()
    torch.set_num_threads(threads)
    with open(log, "ab") as file:
        for number in (1, 2):
            # The descriptors 1 and 2 themselves: what libraries in C print goes to the log, too.
            os.dup2(file.fileno(), number)
    sender.send(_run(job))


def describe_exit(code: int) -> str:
    """Say how a process ended, from its exit code."""
    names = {-number: number.name for number in signal.Signals}
    return f"was ended by {names[code]}" if code in names else f"ended with code {code}"


def end_with_parent() -> None:
    """Let this process end by SIGTERM, before which a training saves, when the one that started it
    has ended. The terminal's Ctrl-C is for that one."""
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
    resource_tracker.ensure_running()  # started within, it would unblock Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
