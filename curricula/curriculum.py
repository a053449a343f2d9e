"""The stage of a training step: dimensions, points, loops and the window of loops in the loss.

curriculum = Curriculum(dims, points, loops, T=15)                      # Schedules
curriculum(step)                       # Stage(dims=5, points=11, loops=15, window=15, …)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .sampling import SampledLoops
from .schedule import Schedule


@dataclass(frozen=True)
class Stage:
    """The sizes of one step: `dims` visible dimensions, `points` pairs, `loops` b; the loss is over
    the last `window` loops and gradients reach back through the last `grad_loops`.

    `scale_loops` is the R of residual scaling: the step's loops where they follow a schedule; b
    where they are sampled, since one map must then serve every depth; the number of layers of a
    standard model.
    """

    dims: int
    points: int
    loops: int
    window: int
    grad_loops: int
    scale_loops: int


@dataclass(frozen=True)
class Curriculum:
    """A pure function from the step to its stage, so that a resumed run needs no replay.

    The loss is that of the last min(T, b) of a step's b loops (Yang et al. 2024, section 4.2).
    `grad_loops` says how many of them its gradient reaches back through: `window`, those in the
    loss (as in the paper); `half`, ⌈b / 2⌉, but at least those in the loss; `all`; or a number, at
    most b. Tied and standard models have T = 1 and `all`.

    Raises ValueError for a number below that of the loops in the loss.
    """

    dims: Schedule
    points: Schedule
    loops: Schedule | SampledLoops
    T: int
    grad_loops: int | Literal["window", "half", "all"] = "window"

    def __post_init__(self) -> None:
        widest = min(self.T, self.loops.end)
        if isinstance(self.grad_loops, int) and self.grad_loops < widest:
            raise ValueError(
                f"gradients through {self.grad_loops} loops do not reach {widest} that count"
            )

    def __call__(self, step: int) -> Stage:
        loops = self.loops(step)
        window = min(self.T, loops)
        return Stage(
            dims=self.dims(step),
            points=self.points(step),
            loops=loops,
            window=window,
            grad_loops=self._reach(loops, window),
            scale_loops=self.loops.b if isinstance(self.loops, SampledLoops) else loops,
        )

    def _reach(self, loops: int, window: int) -> int:
        if isinstance(self.grad_loops, int):
            return min(self.grad_loops, loops)
        through = {"window": window, "half": max((loops + 1) // 2, window), "all": loops}
        return through[self.grad_loops]
