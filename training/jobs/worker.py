"""One job: done here, or in a process of its own that ends with the process that started it.

working = start(0, job, threads=1, log=Path("logs/000.txt"))
answer = working.answer()
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch

from reloop.conf.mistakes import ConfigError, HeldElsewhere, RunError, one_line

from ..signals import Interrupted


class Job(Protocol):
    """What can be done in a process: it travels there, and its result back."""

    @property
    def name(self) -> str:
        """For a user."""

    def __call__(self) -> Any:
        """Do it. What it raises is its failure, but for Interrupted and HeldElsewhere."""

    def describe(self, result: Any) -> str:
        """What was found, in a few words."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its result, or why there is none."""

    result: Any = None
    failure: str = ""
    stopped: int = 0  # the exit code after a signal


@dataclass(frozen=True)
class Held:
    """The job was not done: another process works in its folder."""

    holder: str
    lock: Path  # the file that it holds


@dataclass(frozen=True)
class Lost:
    """The job's process ended without an answer: how."""

    how: str


def done(job: Job) -> Outcome | Held:
    """Do the job here."""
    try:
        return Outcome(result=job())
    except Interrupted as stop:
        print(stop, flush=True)
        return Outcome(stopped=stop.exit_code)
    except HeldElsewhere as held:
        return Held(held.holder, held.lock)
    except (RunError, ConfigError, OSError) as error:
        return Outcome(failure=str(error))
    except Exception as error:
        return Outcome(failure=f"{type(error).__name__}: {one_line(error)}")


@dataclass(frozen=True)
class Working:
    """A process that does a job. `pipe` can be read when it has an answer or has ended."""

    index: int
    process: Any
    pipe: Connection[Any, Any]
    log: Path

    def answer(self) -> Outcome | Held | Lost:
        """What the process sent, or how it ended without; waits for either, and for its end."""
        try:
            answer: Outcome | Held | Lost = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            answer = Lost(_how(self.process.exitcode))
        self.process.join()
        self.pipe.close()
        return answer

    def stop(self, why: str) -> None:
        """Tell the process to save and end; `answer` waits until it has."""
        _note(self.log, why)
        self.process.terminate()


def start(index: int, job: Job, threads: int, log: Path) -> Working:
    """Start a process for the job: it computes with `threads` threads and writes what it says into
    `log`. EOFError and OSError where it cannot be started."""
    # One server imports torch once and makes every process from there; a fork of this process
    # could inherit locks that another thread holds.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([type(job).__module__])
    ours, theirs = context.Pipe(duplex=False)
    try:
        process = context.Process(target=_work, args=(job, threads, log, theirs))
        with _without_ctrl_c():
            process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # so that the end of the process is the end of the pipe
    return Working(index, process, ours, log)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """What is started within never sees the terminal's Ctrl-C, from its first moment on: it is for
    the process that shows the work to end it."""
    resource_tracker.ensure_running()  # started within, it would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(job: Job, threads: int, log: Path, pipe: Connection[Any, Any]) -> None:
    # Outside of training nothing is to be saved: a SIGTERM ends it there and then.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, args=(log,), daemon=True).start()
    torch.set_num_threads(threads)
    with _speaking_into(log):
        answer = done(job)
        try:
            pipe.send(answer)
        except OSError:  # whoever asked is gone
            print("nobody is there to take the result; what was saved is found again", flush=True)


def _end_with_parent(log: Path) -> None:
    """Send this process SIGTERM when the one that started it has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    _note(log, f"stopped: process {parent.pid}, which started this one, is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def _how(code: int) -> str:
    """How a process ended, from its exit code."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _note(log: Path, line: str) -> None:
    try:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError:
        pass  # a log that cannot be written keeps nothing from ending


@contextmanager
def _speaking_into(log: Path) -> Iterator[None]:
    with (
        open(log, "a", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        yield
