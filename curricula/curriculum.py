"""What a training step works on: dimensions, points, loops and the window of loops that count.

curriculum = Curriculum(dims, points, loops, T=15, truncated=True)      # Schedules
curriculum(step)                       # Stage(dims=5, points=11, loops=15, window=15, …)
"""

from __future__ import annotations

from dataclasses import dataclass

from .schedule import Schedule


@dataclass(frozen=True)
class Stage:
    """One step's share: `dims` visible dimensions, `points` pairs, `loops` b; the loss is taken
    over the last `window` loops and gradients reach back through the last `grad_loops`."""

    dims: int
    points: int
    loops: int
    window: int
    grad_loops: int


@dataclass(frozen=True)
class Curriculum:
    """A pure function from the step to its stage, so that a resumed run needs no replay.

    `truncated`: the loss and its gradient see the last min(T, b) loops (Yang et al. 2024, section
    4.2). Otherwise the loss is that of the last loop and its gradient flows through all of them.
    """

    dims: Schedule
    points: Schedule
    loops: Schedule
    T: int
    truncated: bool = True

    def __call__(self, step: int) -> Stage:
        loops = self.loops(step)
        window = min(self.T, loops) if self.truncated else 1
        grad_loops = window if self.truncated else loops
        return Stage(self.dims(step), self.points(step), loops, window, grad_loops)
