"""A process that is stuck after a signal ends.

A process that waits for another, in a product of torch or a queue of a GPU, runs no Python, and so
no handler of signals: a thread waits for them instead.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from select import select

GRACE = 15.0  # seconds; torchrun kills those that it told to end after 30
_LAST_WORDS = 5.0  # seconds that the report may take
_CLOSED = 0  # in place of the number of a signal


class Watchdog:
    """From `start` to `close`: where a signal came and no `tick` follows for GRACE seconds,
    `report` is called, in another thread, and the process ends with exit code 1.

    Outside the main thread, where Python handles no signals, it does nothing.
    """

    def __init__(self, report: Callable[[], object]) -> None:
        self._report, self._last = report, 0.0
        self._pipe: tuple[int, int] | None = None

    def start(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        read, write = self._pipe = os.pipe()
        os.set_blocking(write, False)
        self._before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, args=(read,), daemon=True)
        self._thread.start()

    def tick(self) -> None:
        """Something was completed."""
        self._last = time.monotonic()

    def close(self) -> None:
        if self._pipe is None:
            return
        signal.set_wakeup_fd(self._before)
        read, write = self._pipe
        os.write(write, bytes([_CLOSED]))
        self._thread.join()
        os.close(read)
        os.close(write)
        self._pipe = None

    def _watch(self, read: int) -> None:
        noted = None
        while True:
            if select([read], [], [], None if noted is None else 0.5)[0]:
                if _CLOSED in os.read(read, 64):
                    return
                noted = time.monotonic() if noted is None else noted
            elif noted is not None and time.monotonic() - max(noted, self._last) > GRACE:
                self._end()

    def _end(self) -> None:
        reporting = threading.Thread(target=self._report, daemon=True)
        reporting.start()
        reporting.join(_LAST_WORDS)
        os._exit(1)
