"""Profile intervals: how far each parameter of a fitted law can be moved, with the others refitted,
until the losses reject it.

result = profiles(table, fit)              # result.low["phi"], result.high["phi"]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from .fit import Fit
from .problem import DELTA, NAMES, End, Problem, polished, ranges_of, search
from .table import Floats, ScalingTable

# The least noise of log L: without it, losses that are exactly a law's would give no interval at
# all.
LEAST_NOISE = 1e-5
_NEAR = 0.05  # of an interval's half: the tolerance of its ends
_MAX_POINTS = 40  # of a profile on one side


@dataclass(frozen=True)
class Profiles:
    """The 90 % interval of each free parameter by its profile; `low_at_edge` and `high_at_edge`,
    those whose interval is not closed at the edge of the search. An E of 0 is no such edge: no law
    has less. `noise` is the estimated standard deviation of log L's residuals."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]
    noise: float


def noise_of(residuals: Floats, free: int) -> float:
    """The standard deviation of a fit's residuals of log L, [rows], from the median of all but
    the `free` - 1 smallest, which a fit with so many parameters may make 0 (the median, so that a
    few outliers do not decide it); at least LEAST_NOISE."""
    deviations = np.sort(np.abs(residuals))
    return max(
        float(np.median(deviations[max(free - 1, 0) :])) / float(norm.ppf(0.75)), LEAST_NOISE
    )


def allowance(noise: float, rows: int, free: int) -> float:
    """The excess of a parameter's profile over the least value at the ends of the 90 % interval.

    Twice the excess over c is the square of a t variable, if the residuals u are normal with this
    standard deviation (over delta): c = mean of psi(u)² / mean of psi'(u), psi the derivative of
    Huber's loss (Schrader and Hettmansperger 1980). For noise well below delta this is the F test
    of least squares; far above it, that of absolute deviations. Infinite without more rows than
    parameters, as the noise is then unknown.
    """
    if rows <= free:
        return math.inf
    spread = noise / DELTA
    inside = math.erf(1 / spread / math.sqrt(2))
    squares = spread**2 * (inside - 2 / spread * float(norm.pdf(1 / spread))) + 1 - inside
    return float(t.ppf(0.95, rows - free)) ** 2 * squares / inside / 2


def profiles(table: ScalingTable, fit: Fit) -> Profiles:
    """Move each fitted parameter further and further out, until the others cannot compensate for
    it."""
    free = [name for name in NAMES if name not in fit.fixed]
    noise = noise_of(np.log(fit.law.loss(table) / table.loss), len(free))
    excess = allowance(noise, len(table), len(free))
    problem = Problem.of(table, np.ones(len(table)))
    minima = search(problem, {name: getattr(fit.law, name) for name in fit.fixed})
    sides: dict[str, list[tuple[float, bool]]] = {}
    for name in free:
        line = _Line.of(table, problem, minima, name, fit.fixed)
        sides[name] = [line.end(side, excess) for side in (-1, 1)]
    low, high = ({name: ends[side][0] for name, ends in sides.items()} for side in (0, 1))
    below, above = (tuple(name for name, ends in sides.items() if ends[side][1]) for side in (0, 1))
    return Profiles(low, high, below, above, noise)


@dataclass(frozen=True)
class _Line:
    """One parameter's profile, in the units of theta (for E, A and B the logarithm): its index in
    theta, the fixed parameters, the ranges and the local minima to start from."""

    index: int
    problem: Problem
    fixed: tuple[str, ...]
    ranges: Floats
    minima: list[End]

    @staticmethod
    def of(
        table: ScalingTable, problem: Problem, minima: list[End], name: str, fixed: tuple[str, ...]
    ) -> _Line:
        """For A and B the problem has them in theta, instead of the terms at the middle sizes."""
        index, ranges, middle = NAMES.index(name), ranges_of(problem), list(problem.middle)
        if name in ("A", "B"):
            of_size, exponent = index - 1, index + 2
            ranges[index] += np.sort(ranges[exponent] * middle[of_size])
            laws = [(value, problem.law(theta)) for value, theta in minima]
            middle[of_size] = 0.0
            problem = Problem.of(table, problem.weights, (middle[0], middle[1]))
            minima = [(value, problem.theta(law)) for value, law in laws]
        return _Line(index, problem, (*fixed, name), ranges, minima)

    def end(self, side: int, excess: float) -> tuple[float, bool]:
        """Where the profile has risen by `excess`, and whether it has not up to the edge."""
        limit = self.minima[0][0] + excess
        edge = float(self.ranges[self.index, (1 + side) // 2])
        thetas = [theta for value, theta in self.minima if value <= limit]
        inner = max(thetas, key=lambda theta: side * float(theta[self.index]))
        start, outer = float(inner[self.index]), None
        step = self._first_step(inner, excess)
        for _ in range(_MAX_POINTS):
            position = float(inner[self.index])
            if side * (edge - position) <= 0:
                break
            if outer is None:
                trial = position + side * min(step, abs(edge - position))
                step *= 2
            else:
                trial = (position + outer) / 2
            value, theta = self._refit(inner, trial, limit)
            if value <= limit:
                inner = theta
            else:
                outer = trial
            if outer is not None and abs(outer - position) <= _NEAR * abs(outer - start):
                break
        return self._parameter(edge if outer is None else outer, edge, side)

    def _refit(self, inner: Floats, trial: float, limit: float) -> End:
        """The least value with the parameter at `trial`, from a start along the linearised profile;
        if it is above `limit`, also from one with the others unchanged."""
        offset = (trial - inner[self.index]) * self._direction(inner)
        starts = [np.clip(inner + offset, self.ranges[:, 0], self.ranges[:, 1]), inner.copy()]
        best: End = (math.inf, inner)
        for start in starts:
            start[self.index] = trial
            result = polished(self.problem, start, self.fixed, self.ranges)
            best = min(best, result, key=lambda end: end[0])
            if best[0] <= limit:
                break
        return best

    def _direction(self, theta: Floats) -> Floats:
        """How the others follow the parameter, [6], for residuals linear in both."""
        slopes = self.problem.slopes(theta)[1]
        free = [i for i, name in enumerate(NAMES) if name not in self.fixed]
        direction = np.zeros(len(NAMES))
        direction[self.index] = 1
        if free:
            direction[free] = np.linalg.lstsq(slopes[:, free], -slopes[:, self.index], 1e-8)[0]
        return direction

    def _first_step(self, theta: Floats, excess: float) -> float:
        """The step to the end of the profile for linear residuals, at most a tenth of the range."""
        slopes = self.problem.slopes(theta)[1] @ self._direction(theta)
        low, high = self.ranges[self.index]
        return float(min(math.sqrt(2 * excess / max((slopes**2).sum(), 1e-12)), (high - low) / 10))

    def _parameter(self, value: float, edge: float, side: int) -> tuple[float, bool]:
        """The parameter itself, and whether it is at the edge. The low edge of E stands for 0."""
        name = NAMES[self.index]
        if name not in ("E", "A", "B"):
            return value, value == edge
        if name == "E" and side < 0 and value == edge:
            return 0.0, False
        return math.exp(value), value == edge
