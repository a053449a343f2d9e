"""How far a computation is: a bar on a terminal, elsewhere a line every half minute."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

_DELAY = 2  # seconds: what takes less shows no bar
_BETWEEN_LINES = 30.0  # seconds


class Progress:
    """Progress through `total` units, `done` of them from before, shown on stderr.

    with Progress(total=300, what="probes", unit="step") as progress:
        ...
        progress.update()
    """

    def __init__(self, total: int, what: str, unit: str, done: int = 0) -> None:
        self.total, self.what, self.unit, self.done = total, what, unit, done
        self._first, self._began = done, time.monotonic()
        self._last = self._began
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
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
        """So many more units are done."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if not self._terminal and now - self._last >= _BETWEEN_LINES and self.done < self.total:
            self._last = now
            rate = (self.done - self._first) / (now - self._began)
            left = tqdm.format_interval(int((self.total - self.done) / rate))
            line = f"{self.what}: {self.unit} {self.done:,} of {self.total:,}, {left} left"
            print(line, file=sys.stderr, flush=True)
