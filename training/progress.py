"""The progress of a computation, and of a run that trains elsewhere.

`Work` says what fraction of a training's work lies before a step. Steps cost more as loops and
points grow.

with Progress(total=300, what="probes", unit="step") as progress:
    progress.update()
work = Work(curriculum, steps=7000)
seconds = work(step) * seconds_of_all_steps
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from looplab.curricula import Curriculum, Stage

from .run_folder.status import last_record, seconds_left

_DELAY = 2  # seconds before the bar appears
BETWEEN_LINES = 30.0  # seconds, where it is no terminal
_PARTS = 500  # of a training, each with the cost of its middle step


def on_terminal() -> bool:
    """Return whether a bar can be drawn anew: on a terminal, or in a notebook."""
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")


class _Line:
    """A file for a notebook's bar: one output that is replaced, so that a notebook which nbconvert
    executes holds its last state alone, and no fragments."""

    _shown: Any = None

    def write(self, text: str) -> None:
        if not (line := text.strip("\r\n")):
            return
        content = {"text/plain": line.strip()}
        if self._shown is None:
            display = import_module("IPython.display").display
            self._shown = display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)

    def flush(self) -> None:
        """Nothing: what is written is shown at once."""


def bar_file() -> Any:
    """The file that a bar is drawn in; None: stderr."""
    return _Line() if _in_notebook() else None


class Progress(tqdm):  # type: ignore[type-arg]
    """A bar on stderr of `total` units, of which `done` are done at the start; it is drawn every
    half minute where stderr is no terminal."""

    def __init__(self, total: int, what: str, unit: str, done: int = 0) -> None:
        interval = 0.1 if on_terminal() else BETWEEN_LINES
        super().__init__(
            total=total,
            initial=done,
            desc=what,
            unit=unit,
            delay=_DELAY,
            leave=False,
            dynamic_ncols=True,
            mininterval=interval,
            miniters=1,
            disable=sys.stderr is None,
            file=bar_file(),
        )


def how_far(folder: Path, steps: int) -> str:
    """Step, loss and time left of a run that trains in another process, by the last line of its
    metrics.jsonl; empty before the first."""
    if not (record := last_record(folder)):
        return ""
    said = f"step {record['step']:,}/{steps:,}, loss {record['loss']:.4g}"
    if (seconds := seconds_left(record, steps)) is None:
        return said
    return f"{said}, {tqdm.format_interval(int(seconds))} left"


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
        # At most 500 parts: a curriculum of a million steps is not asked for each of them.
        self._ends = np.unique(np.linspace(0, steps, min(steps, _PARTS) + 1).astype(np.int64))
        middles = (self._ends[:-1] + self._ends[1:]) // 2
        costs = np.array([cost(curriculum(int(step))) for step in middles], dtype=np.float64)
        # The work before each border, as many numbers as `_ends`.
        cumulative = np.concatenate(([0.0], np.cumsum(costs * np.diff(self._ends))))
        self.total = float(cumulative[-1])
        # Without any work, as of no steps, all fractions are 0.
        self._fractions = cumulative / max(cumulative[-1], 1.0)

    def __call__(self, step: int) -> float:
        return float(np.interp(step, self._ends, self._fractions))
