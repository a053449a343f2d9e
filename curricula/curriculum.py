"""What a training step works on: dimensions, points, loops and the window of loops that count.

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
    """One step's share: `dims` visible dimensions, `points` pairs, `loops` b; the loss is taken
    over the last `window` loops and gradients reach back through the last `grad_loops`.

    `scale_loops` is the R of residual scaling: the step's loops where they follow a schedule, so
    that the scale follows them; b where they are drawn, since one map must then serve every depth.
    A standard model's is the number of its layers.
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
    `grad_loops` says how many of them its gradient reaches back through: `window`, as many as
    count (as there); `half`, ⌈b / 2⌉, but never fewer than count; `all`; or so many, as far as
    there are. Tied and standard models have T = 1 and `all`.

    Raises ValueError for a number that is less than the loops that count: no model can do that.
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
