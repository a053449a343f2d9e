"""The progress of a computation: a bar on a terminal, else a line every half minute; and the
fraction of a training's work before a step, whose steps cost more as loops and points grow.

work = Work(curriculum, steps=7000)
remaining = seconds_so_far * (1 - work(step)) / (work(step) - work(first_step))
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from tqdm import tqdm

from looplab.curricula import Curriculum, Stage

_DELAY = 2  # seconds before the bar appears
_BETWEEN_LINES = 30.0  # seconds
_PARTS = 500  # of a training, each with the cost of its middle step


def on_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class Progress:
    """Progress through `total` units, of which `done` are done at the start, on stderr.

    with Progress(total=300, what="probes", unit="step") as progress:
        ...
        progress.update()
    """

    def __init__(
        self, total: float, what: str, unit: str, done: float = 0, bar_format: str | None = None
    ) -> None:
        self.total, self.what, self.unit, self.done = total, what, unit, done
        self._first, self._start_time = done, time.monotonic()
        self._last = self._start_time
        self.on_terminal = on_terminal()
        self.bar: tqdm[Any] = tqdm(
            total=total,
            initial=done,
            desc=what,
            unit=unit,
            delay=_DELAY,
            leave=False,
            dynamic_ncols=True,
            disable=not self.on_terminal,
            bar_format=bar_format,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.bar.close()

    def update(self, count: float = 1) -> None:
        """Count more units."""
        self.done += count
        self.bar.update(count)
        now = time.monotonic()
        if not self.on_terminal and now - self._last >= _BETWEEN_LINES and self.done < self.total:
            self._last = now
            print(self.line(now - self._start_time), file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """The line that is printed every half minute, so many seconds after the start."""
        left = self.remaining(seconds)
        return f"{self.what}: {self.unit} {self.done:,} of {self.total:,}, {left} left"

    def remaining(self, seconds: float) -> str:
        """The time that the rest takes, at the rate of these seconds since the start."""
        rate = (self.done - self._first) / seconds
        return tqdm.format_interval(int((self.total - self.done) / rate)) if rate else "?"


class Work:
    """The fraction of all scheduled work, from 0 to 1, of the first `step` steps.

    By default a step costs its loops and twice its gradient loops, times its points, in passes
    through the block; or what `cost` returns. `total` is the cost of all steps, in the same unit.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        steps: int,
        cost: Callable[[Stage], float] = lambda s: s.points * (s.loops + 2 * s.grad_loops),
    ) -> None:
        self._ends = np.unique(np.linspace(0, steps, min(steps, _PARTS) + 1).astype(np.int64))
        middles = (self._ends[:-1] + self._ends[1:]) // 2
        costs = np.array([cost(curriculum(int(step))) for step in middles], dtype=np.float64)
        cumulative = np.concatenate(([0.0], np.cumsum(costs * np.diff(self._ends))))
        self.total = float(cumulative[-1])
        self._fractions = cumulative / max(cumulative[-1], 1.0)

    def __call__(self, step: int) -> float:
        return float(np.interp(step, self._ends, self._fractions))
