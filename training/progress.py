"""The progress of a computation: a bar on a terminal, else a line every half minute."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

_DELAY = 2  # seconds before the bar appears
_BETWEEN_LINES = 30.0  # seconds


def on_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class Progress:
    """Progress through `total` units, of which `done` are done at the start, on stderr.

    with Progress(total=300, what="probes", unit="step") as progress:
        ...
        progress.update()
    """

    def __init__(self, total: int, what: str, unit: str, done: int = 0) -> None:
        self.total, self.what, self.unit, self.done = total, what, unit, done
        self._first, self._start_time = done, time.monotonic()
        self._last = self._start_time
        self._terminal = on_terminal()
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=what,
            unit=unit,
            delay=_DELAY,
            leave=False,
            dynamic_ncols=True,
            disable=not self._terminal,
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.close()

    def update(self, count: int = 1) -> None:
        """Count more units."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if not self._terminal and now - self._last >= _BETWEEN_LINES and self.done < self.total:
            self._last = now
            rate = (self.done - self._first) / (now - self._start_time)
            remaining = tqdm.format_interval(int((self.total - self.done) / rate))
            line = f"{self.what}: {self.unit} {self.done:,} of {self.total:,}, {remaining} left"
            print(line, file=sys.stderr, flush=True)
