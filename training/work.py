"""The fraction of a training's work before a step: steps cost more as loops and points grow.

work = Work(curriculum, steps=7000)
remaining = seconds_so_far * (1 - work(step)) / (work(step) - work(first_step))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reloop.curricula import Curriculum, Stage

_PARTS = 500  # of a training, each with the cost of its middle step


class Work:
    """The fraction of all scheduled work, from 0 to 1, of the first `step` steps.

    By default a step costs its loops and twice its gradient loops, times its points, in passes
    through the block; or what `cost` returns. `total` is the cost of all steps, in the same unit.
    """

    def __init__(
        self, curriculum: Curriculum, steps: int, cost: Callable[[Stage], float] | None = None
    ) -> None:
        cost = cost or _cost
        self._ends = np.unique(np.linspace(0, steps, min(steps, _PARTS) + 1).astype(np.int64))
        middles = (self._ends[:-1] + self._ends[1:]) // 2
        costs = np.array([cost(curriculum(int(step))) for step in middles], dtype=np.float64)
        cumulative = np.concatenate(([0.0], np.cumsum(costs * np.diff(self._ends))))
        self.total = float(cumulative[-1])
        self._fractions = cumulative / max(cumulative[-1], 1.0)

    def __call__(self, step: int) -> float:
        return float(np.interp(step, self._ends, self._fractions))


def _cost(stage: Stage) -> int:
    return stage.points * (stage.loops + 2 * stage.grad_loops)
