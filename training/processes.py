"""Several jobs at once, each in a process of its own; one that fails does not end the others.

outcomes = run_jobs(jobs, at_once=2, logs=Path("logs"))
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from conf.checks import ConfigError, RunError

from .train import Interrupted


class Job(Protocol):
    """What can be done in a process: it travels there, and its result back."""

    @property
    def name(self) -> str:
        """For a user."""

    def __call__(self) -> dict[str, Any]:
        """Do it. What it raises is its failure, but for Interrupted."""

    def said(self, result: dict[str, Any]) -> str:
        """What was found, in a few words."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its result, or why there is none."""

    result: dict[str, Any] | None = None
    failure: str = ""
    stopped: int = 0  # the exit code after a signal


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], at_once: int, logs: Path) -> list[Outcome]:
    """The outcomes of all jobs, in their order; a line on each that ends.

    With `at_once` 1 they are done here, one after another, and show themselves. Otherwise each has
    a process with its share of the threads, which writes what it says into `logs`.

    At Ctrl-C (KeyboardInterrupt here) or SystemExit every process is told to save and waited for.
    SystemExit with its exit code is raised for a job that was stopped by a signal itself.
    """
    if at_once == 1:
        return _one_by_one(jobs)
    logs.mkdir(parents=True, exist_ok=True)
    waiting, running = list(enumerate(jobs)), dict[Any, _Working]()
    outcomes = [Outcome()] * len(jobs)
    threads = max(1, cores() // at_once)
    with tqdm(total=len(jobs), unit="job", disable=None) as bar:
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    index, job = waiting.pop(0)
                    working = _start(index, job, threads, logs / f"{index:03d}.txt")
                    running[working.pipe] = working
                for pipe in wait(list(running)):
                    working = running.pop(pipe)
                    outcomes[working.index] = outcome = working.outcome()
                    if outcome.stopped:
                        raise SystemExit(outcome.stopped)
                    _tell(bar, jobs[working.index], outcome)
        except BaseException:
            for working in running.values():
                working.process.terminate()
            for working in running.values():
                working.process.join()
            raise
    return outcomes


def _one_by_one(jobs: Sequence[Job]) -> list[Outcome]:
    outcomes = []
    with tqdm(total=len(jobs), unit="job", disable=True if len(jobs) == 1 else None) as bar:
        for job in jobs:
            outcomes.append(_done(job))
            if outcomes[-1].stopped:
                raise SystemExit(outcomes[-1].stopped)
            _tell(bar, job, outcomes[-1])
    return outcomes


def _tell(bar: tqdm[Any], job: Job, outcome: Outcome) -> None:
    bar.update()
    said = job.said(outcome.result) if outcome.result is not None else f"failed: {outcome.failure}"
    bar.write(f"{job.name}: {said}", file=sys.stdout)
    sys.stdout.flush()


def _done(job: Job) -> Outcome:
    try:
        return Outcome(result=job())
    except Interrupted as stop:
        return Outcome(stopped=stop.exit_code)
    except (RunError, ConfigError, OSError) as error:
        return Outcome(failure=str(error))
    except Exception as error:
        return Outcome(failure=f"{type(error).__name__}: {' '.join(str(error).split())}")


@dataclass(frozen=True)
class _Working:
    index: int
    process: Any
    pipe: Connection[Any, Any]
    log: Path

    def outcome(self) -> Outcome:
        """What the process sent, or that it ended without."""
        try:
            outcome: Outcome = self.pipe.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            outcome = Outcome(failure=f"its process ended with code {code}; {self.log} has more")
        self.process.join()
        return outcome


def _start(index: int, job: Job, threads: int, log: Path) -> _Working:
    # One server imports torch once and makes every process from there; a fork of this process
    # could inherit locks that another thread holds.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([type(job).__module__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, threads, log, theirs))
    process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return _Working(index, process, ours, log)


def _work(job: Job, threads: int, log: Path, pipe: Connection[Any, Any]) -> None:
    torch.set_num_threads(threads)
    with _speaking_into(log):
        try:
            outcome = _done(job)
        except KeyboardInterrupt:
            outcome = Outcome(stopped=130)
    pipe.send(outcome)


@contextmanager
def _speaking_into(log: Path) -> Iterator[None]:
    with (
        open(log, "a", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        yield
