"""Loops that are sampled for each step, as a pure function of the seed and the step."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np

from reloop.conf.checks.loops import most_loops

_SIGMA = 0.5  # standard deviation of τ below


@dataclass(frozen=True)
class SampledLoops:
    """The number of loops of a step, sampled around `b`.

    uniform: on least .. 2 b - least, with mean b. poisson_lognormal: 1 + Poisson(exp τ), τ normal
    with standard deviation 1/2 and such a mean that the loops' is b (Geiping et al. 2025, arXiv
    2502.05171, with r̄ = b - 1); always 1 where b is 1. A draw beyond 4 b is cut to 4 b, which
    bounds memory and lowers the mean by less than 0.1 %, the variance by about 2 %.

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
        generator = np.random.default_rng(np.random.SeedSequence((*self.entropy, step)))
        if self.law == "uniform":
            return int(generator.integers(self.least, self.end, endpoint=True))
        if self.b == 1:
            return 1
        rate = generator.lognormal(log(self.b - 1) - _SIGMA**2 / 2, _SIGMA)
        return min(1 + int(generator.poisson(rate)), self.end)
