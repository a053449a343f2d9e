"""One job, in this process, or in its own process, which ends with the one that started it.

working = start(0, job, threads=1, log=Path("logs/000.txt"))
answer = working.answer()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Protocol

from reloop.conf.mistakes import ConfigError, HeldElsewhere, RunError, RunsFailed, one_line
from reloop.conf.plugins import failure

from ..signals import Interrupted
from .process import describe_exit, end_with_parent, start_process
from .server import context


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
    reasons: Mapping[str, str] = field(default_factory=dict)  # of a RunsFailed


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
    except RunsFailed as failed:
        return Outcome(failure=str(failed), reasons=failed.reasons)
    except (RunError, ConfigError, OSError) as error:
        return Outcome(failure=str(error))
    except Exception as error:
        return Outcome(failure=failure(error) or f"{type(error).__name__}: {one_line(error)}")


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
            answer = Lost(describe_exit(self.process.exitcode))
        self.process.join()
        self.pipe.close()
        return answer

    def stop(self, why: str) -> None:
        """End the process, which saves first; `answer` waits for its end."""
        _append_line(self.log, why)
        self.process.terminate()


def start(index: int, job: Job, threads: int, log: Path, device: str = "") -> Working:
    """Start a process for the job, with `threads` threads and its output in `log`; it sees the CUDA
    device of this number alone, if one is given. EOFError and OSError where it cannot be
    started."""
    receiver, sender = context.Pipe(duplex=False)
    try:
        process = start_process(_work, (job, threads, log, sender, device), type(job).__module__)
    except BaseException:
        receiver.close()
        raise
    finally:
        sender.close()  # so that the pipe ends with the process
    return Working(index, process, receiver, log)


def _work(job: Job, threads: int, log: Path, pipe: Connection[Any, Any], device: str = "") -> None:
    if device:  # read when CUDA is first used
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    end_with_parent(threads, partial(_append_line, log))
    with (
        _open_log(log) as file,
        redirect_stdout(file),
        redirect_stderr(file),
    ):
        answer = run_job(job)
        try:
            pipe.send(answer)
        except OSError:  # the receiver is gone
            print("no process waits for the result; what was saved is found again", flush=True)


def _open_log(log: Path) -> IO[str]:
    """The file of a process's output; one that swallows it where the disk is full."""
    try:
        return open(log, "a", buffering=1, encoding="utf-8")
    except OSError:
        return open(os.devnull, "w", encoding="utf-8")


def _append_line(log: Path, line: str) -> None:
    try:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError:
        pass  # the process must end even if its log cannot be written
