"""One job, in this process, or in its own process, which ends with the one that started it.

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
    """The outcome of a job: its result, or why there is none."""

    result: Any = None
    failure: str = ""
    stopped: int = 0  # the exit code after a signal


@dataclass(frozen=True)
class Held:
    """The job did not run: another process works in its folder."""

    holder: str
    lock: Path  # the file that this process holds


@dataclass(frozen=True)
class Lost:
    """The job's process ended without an answer; `how` it ended."""

    how: str


def run_job(job: Job) -> Outcome | Held:
    """Run the job in this process."""
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
    """A process that runs a job. `pipe` is readable when it has an answer or has ended."""

    index: int
    process: Any
    pipe: Connection[Any, Any]
    log: Path

    def answer(self) -> Outcome | Held | Lost:
        """The process's answer, or how it ended without one; waits for its end."""
        try:
            answer: Outcome | Held | Lost = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            answer = Lost(_describe_exit(self.process.exitcode))
        self.process.join()
        self.pipe.close()
        return answer

    def stop(self, why: str) -> None:
        """End the process, which saves first; `answer` waits for its end."""
        _append_line(self.log, why)
        self.process.terminate()


def start(index: int, job: Job, threads: int, log: Path) -> Working:
    """Start a process for the job, with `threads` threads and its output in `log`. EOFError and
    OSError where it cannot be started."""
    # One server imports torch once and forks every process; a fork of this process could inherit
    # locks that another thread holds.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([type(job).__module__])
    receiver, sender = context.Pipe(duplex=False)
    try:
        process = context.Process(target=_work, args=(job, threads, log, sender))
        with _without_ctrl_c():
            process.start()
    except BaseException:
        receiver.close()
        raise
    finally:
        sender.close()  # so that the pipe ends with the process
    return Working(index, process, receiver, log)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes started within this context never get the terminal's Ctrl-C: the process that
    started them ends them."""
    resource_tracker.ensure_running()  # started within, it would unblock Ctrl-C
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _work(job: Job, threads: int, log: Path, pipe: Connection[Any, Any]) -> None:
    # Outside of training there is nothing to save: a SIGTERM ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, args=(log,), daemon=True).start()
    torch.set_num_threads(threads)
    with (
        open(log, "a", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        answer = run_job(job)
        try:
            pipe.send(answer)
        except OSError:  # the receiver is gone
            print("no process waits for the result; what was saved is found again", flush=True)


def _end_with_parent(log: Path) -> None:
    """Send this process SIGTERM when the one that started it has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    _append_line(log, f"stopped: process {parent.pid}, which started this one, is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def _describe_exit(code: int) -> str:
    """How a process ended, as text, from its exit code."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _append_line(log: Path, line: str) -> None:
    try:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError:
        pass  # the process must end even if its log cannot be written
