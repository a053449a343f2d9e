"""The stage of a training step: dimensions, points, loops and the window of loops in the loss.

curriculum = Curriculum(dims, points, loops, T=15)                      # Schedules
curriculum(step)                       # Stage(dims=5, points=11, loops=15, window=15, …)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import log
from typing import Literal

import numpy as np

from looplab.conf.checks.loops import most_loops

_SIGMA = 0.5  # standard deviation of τ below


@dataclass(frozen=True)
class SampledLoops:
    """The number of loops of a step, sampled around `b`.

    uniform: on least .. 2 b - least, with mean b. poisson_lognormal: 1 + Poisson(exp τ), τ normal
    with standard deviation 1/2 and such a mean that the loops' is b (Geiping et al. 2025, arXiv
    2502.05171, with r̄ = b - 1); always 1 where b is 1. A draw beyond 4 b is cut to 4 b, which
    bounds memory. It lowers the mean by less than 0.1 %, the variance by about 2 %.

    `entropy` is the source of randomness: the run's seed and the number of a stream of its own.
    Raises ValueError for an unknown law, b below 1, and a `least` that is not in 1 .. b.
    """

    law: Literal["uniform", "poisson_lognormal"]
    b: int
    entropy: tuple[int, ...]
    least: int = 1  # of uniform

    def __post_init__(self) -> None:
        known = self.law in ("uniform", "poisson_lognormal")
        if not known or not 1 <= self.least <= self.b:
            raise ValueError(f"loops cannot be drawn by {self.law!r} around {self.b}")

    @property
    def end(self) -> int:
        """The most loops of a sample."""
        return most_loops(self.law, self.b, self.least)

    def __call__(self, step: int) -> int:
        # A generator for each step: its number is a function of the step, with nothing to replay.
        generator = np.random.default_rng(np.random.SeedSequence((*self.entropy, step)))
        if self.law == "uniform":
            return int(generator.integers(self.least, self.end, endpoint=True))
        if self.b == 1:
            return 1
        # E exp(τ) = exp(μ + σ²/2), which is b − 1 for this μ.
        rate = generator.lognormal(log(self.b - 1) - _SIGMA**2 / 2, _SIGMA)
        return min(1 + int(generator.poisson(rate)), self.end)


@dataclass(frozen=True)
class Schedule:
    """An integer that starts at `start` and grows by `inc` up to `end`.

    `intervals` are the numbers of steps that each value lasts; the last of them repeats. The first
    value lasts for steps 0 .. intervals[0] - 1. Raises ValueError for a schedule that cannot go
    from start to end.
    """

    start: int
    end: int
    inc: int
    intervals: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise ValueError(f"a schedule cannot start at {self.start}, beyond its end {self.end}")
        if self.inc < 1 or not self.intervals or min(self.intervals) < 1:
            raise ValueError("a schedule needs inc >= 1 and intervals of at least one step")

    def __call__(self, step: int) -> int:
        increments = 0
        # `step` becomes the steps since the last change; the else is for the repeated interval.
        for interval in self.intervals[:-1]:
            if step < interval:
                break
            increments, step = increments + 1, step - interval
        else:
            increments += step // self.intervals[-1]
        return min(self.end, self.start + increments * self.inc)

    def changes(self, steps: int) -> list[int]:
        """The steps below `steps` whose value is not that of the step before."""
        found, ends = list[int](), accumulate(chain(self.intervals, repeat(self.intervals[-1])))
        for step in ends:
            # Where an interval's end changes nothing, the end value is reached, and stays.
            if step >= steps or self(step) == self(step - 1):
                break
            found.append(step)
        return found

    @classmethod
    def constant(cls, value: int) -> Schedule:
        """A schedule that stays at `value`."""
        return cls(value, value, 1, (1,))


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
        # (b + 1) // 2 is ⌈b / 2⌉.
        through = {"window": window, "half": max((loops + 1) // 2, window), "all": loops}
        return through[self.grad_loops]
