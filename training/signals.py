"""The ends of a training between two steps: Ctrl-C and SIGTERM, and a loss that is not finite."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from looplab.conf.mistakes import RunError


class Interrupted(Exception):
    """Training stopped at a signal, with everything saved."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"saved after step {step}; the same command resumes from there")
        # As a shell reports a process that a signal has ended.
        self.exit_code = 128 + number


class Diverged(RunError):
    """Training stopped at a loss or gradient that is not finite; the last checkpoint is intact."""


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in the yielded list, so that they do not interrupt a step."""
    numbers: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        numbers.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield numbers  # Python delivers signals to the main thread only
        return
    previous = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield numbers
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
