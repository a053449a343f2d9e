"""How much of a training's work lies before a step: steps cost more as loops and points grow.

work = Work(curriculum, steps=7000)
left = seconds_so_far * (1 - work(step)) / (work(step) - work(first_step))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reloop.curricula import Curriculum, Stage

_PARTS = 500  # of a training, in each of which one step stands for all


class Work:
    """The share of all scheduled work, from 0 to 1, that is done when `step` steps are made.

    A step costs as many passes through the block as it makes loops and, for the backward pass,
    twice as many as gradients reach back through, each on two tokens a point; or what `cost` says.
    `total` is that of all steps, in its unit.
    """

    def __init__(
        self, curriculum: Curriculum, steps: int, cost: Callable[[Stage], float] | None = None
    ) -> None:
        cost = cost or _cost
        self._ends = np.unique(np.linspace(0, steps, min(steps, _PARTS) + 1).astype(np.int64))
        middles = (self._ends[:-1] + self._ends[1:]) // 2
        costs = np.array([cost(curriculum(int(step))) for step in middles], dtype=np.float64)
        done = np.concatenate(([0.0], np.cumsum(costs * np.diff(self._ends))))
        self.total = float(done[-1])
        self._done = done / max(done[-1], 1.0)

    def __call__(self, step: int) -> float:
        return float(np.interp(step, self._ends, self._done))


def _cost(stage: Stage) -> int:
    return stage.points * (stage.loops + 2 * stage.grad_loops)
