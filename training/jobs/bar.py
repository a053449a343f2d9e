"""How far several jobs are: a bar on a terminal, else a line every half minute.

with Bar(len(jobs), left=lambda: seconds) as bar: bar.end("job 3: done")
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from ..progress import on_terminal

_BETWEEN = 2.0  # seconds between two looks at the work that is left
_BETWEEN_LINES = 30.0  # seconds, where there is no terminal
_SHARE = 0.02  # of the time that the looks may take
_FORMAT = "{percentage:3.0f}%|{bar}| {postfix}, {elapsed} so far, {remaining} left"


class Bar:
    """The progress of `jobs` jobs. `left` returns the seconds of work that are still to come, here
    and in other processes; without it, all jobs count the same. A single job has no bar: it shows
    its own progress."""

    def __init__(self, jobs: int, left: Callable[[], float] | None = None) -> None:
        self._jobs, self._ended, self._left = jobs, 0, left
        self._start, self._looked, self._said = time.monotonic(), 0.0, time.monotonic()
        self._pause = _BETWEEN
        self._total = left() if left else float(jobs)
        self._lines = jobs > 1 and not on_terminal()
        self._bar: tqdm[Any] = tqdm(
            total=max(self._total, 1e-9),
            bar_format=_FORMAT,
            dynamic_ncols=True,
            leave=False,
            disable=jobs == 1 or not on_terminal(),
        )
        self._show()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.close()

    def end(self, line: str) -> None:
        """Count a job, and print its line."""
        self._ended += 1
        self.write(line)
        self._looked = 0.0
        self.look()

    def write(self, line: str) -> None:
        """Print a line on stdout."""
        self._bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def look(self) -> None:
        """Show how much is left, unless that was shown a moment ago."""
        now = time.monotonic()
        if now - self._looked < self._pause:
            return
        done = self._done()
        self._looked = time.monotonic()
        self._pause = max(_BETWEEN, (self._looked - now) / _SHARE)
        self._bar.update(max(done - self._bar.n, 0))
        self._show()
        if self._lines and self._ended < self._jobs and now - self._said >= _BETWEEN_LINES:
            self._said = now
            print(self._line(done), file=sys.stderr, flush=True)

    def _done(self) -> float:
        return self._total - self._left() if self._left else float(self._ended)

    def _show(self) -> None:
        self._bar.set_postfix_str(f"{self._ended} of {self._jobs} done")

    def _line(self, done: float) -> str:
        share = done / self._total if self._total else 1.0
        line = f"{self._ended} of {self._jobs} done, {share:.0%} of the work"
        if share > 0:
            left = (time.monotonic() - self._start) * (1 - share) / share
            line += f", about {tqdm.format_interval(int(left))} left"
        return line
