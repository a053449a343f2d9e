"""How far each parameter of a fitted law could be moved, the others fitted anew, before the losses
speak against it: its profile's interval.

found = profiles(table, fit)               # found.low["phi"], found.high["phi"], found.open
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from .fit import Fit
from .problem import DELTA, NAMES, Problem
from .search import End, polished, ranges_of, search
from .table import Floats, ScalingTable

# No loss is taken to be known better than this, in log L: without it, losses that a law gave, or
# that the law happens to meet, would leave no interval at all.
LEAST_NOISE = 1e-5
_NEAR = 0.05  # of an interval's half: how well its ends are found
_MOST = 40  # points of a profile on one side


@dataclass(frozen=True)
class Profiles:
    """The 90 % interval of each free parameter by its profile; `low_at_edge` and `high_at_edge`,
    those whose profile is still within it where the search for them ends. An E of 0 is no such
    edge: no law has less. `noise` is the standard deviation of log L's residuals it goes by."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]
    noise: float


def noise_of(residuals: Floats, free: int) -> float:
    """The standard deviation of a fit's residuals of log L, [rows], by the median of all but the
    `free` - 1 smallest, as many as a fit with so many parameters may make 0 (so that no few runs
    that failed decide it); at least LEAST_NOISE."""
    smallest = np.sort(np.abs(residuals))
    return max(float(np.median(smallest[max(free - 1, 0) :])) / float(norm.ppf(0.75)), LEAST_NOISE)


def allowance(noise: float, rows: int, free: int) -> float:
    """By how much a parameter's profile may exceed the least value and be within 90 %.

    Twice the excess over c is the square of a t variable, where the residuals u are of a normal
    distribution with this standard deviation (over delta): c = mean of psi(u)² / mean of psi'(u),
    psi the derivative of Huber's loss (Schrader and Hettmansperger 1980). For noise well below
    delta that is least squares' F test; for noise far above, that of absolute deviations. Without a
    row more than parameters nothing tells the noise: infinite.
    """
    if rows <= free:
        return math.inf
    spread = noise / DELTA
    inside = math.erf(1 / spread / math.sqrt(2))
    squares = spread**2 * (inside - 2 / spread * float(norm.pdf(1 / spread))) + 1 - inside
    return float(t.ppf(0.95, rows - free)) ** 2 * squares / inside / 2


def profiles(table: ScalingTable, fit: Fit) -> Profiles:
    """Moves each parameter that was fitted further and further out, until the others can no longer
    make up for it."""
    free = [name for name in NAMES if name not in fit.held]
    noise = noise_of(np.log(fit.law.loss(table) / table.loss), len(free))
    most = allowance(noise, len(table), len(free))
    problem = Problem.of(table, np.ones(len(table)))
    valleys = search(problem, {name: getattr(fit.law, name) for name in fit.held})
    sides: dict[str, list[tuple[float, bool]]] = {}
    for name in free:
        line = _Line.of(table, problem, valleys, name, fit.held)
        sides[name] = [line.end(side, most) for side in (-1, 1)]
    low, high = ({name: ends[side][0] for name, ends in sides.items()} for side in (0, 1))
    below, above = (tuple(n for n, ends in sides.items() if ends[side][1]) for side in (0, 1))
    return Profiles(low, high, below, above, noise)


@dataclass(frozen=True)
class _Line:
    """One parameter's profile, in the units in which it is searched (of E, A and B the logarithm):
    the entry of theta, those that stay, where it may go and the valleys it starts from."""

    index: int
    problem: Problem
    held: tuple[str, ...]
    ranges: Floats
    valleys: list[End]

    @staticmethod
    def of(
        table: ScalingTable, problem: Problem, valleys: list[End], name: str, held: tuple[str, ...]
    ) -> _Line:
        """For A and B of a problem whose theta holds them, not the terms at the middle sizes."""
        index, ranges, middle = NAMES.index(name), ranges_of(problem), list(problem.middle)
        if name in ("A", "B"):
            of_size, exponent = index - 1, index + 2
            ranges[index] += np.sort(ranges[exponent] * middle[of_size])
            laws = [(value, problem.law(theta)) for value, theta in valleys]
            middle[of_size] = 0.0
            problem = Problem.of(table, problem.weights, (middle[0], middle[1]))
            valleys = [(value, problem.theta(law)) for value, law in laws]
        return _Line(index, problem, (*held, name), ranges, valleys)

    def end(self, side: int, most: float) -> tuple[float, bool]:
        """Where the profile has risen by `most`, and whether it has not where the search ends."""
        limit = self.valleys[0][0] + most
        edge = float(self.ranges[self.index, (1 + side) // 2])
        within = [theta for value, theta in self.valleys if value <= limit]
        inside = max(within, key=lambda theta: side * float(theta[self.index]))
        begin, outside = float(inside[self.index]), None
        step = self._first_step(inside, most)
        for _ in range(_MOST):
            here = float(inside[self.index])
            if side * (edge - here) <= 0:
                break
            if outside is None:
                at = here + side * min(step, abs(edge - here))
                step *= 2
            else:
                at = (here + outside) / 2
            value, theta = self._refitted(inside, at, limit)
            if value <= limit:
                inside = theta
            else:
                outside = at
            if outside is not None and abs(outside - here) <= _NEAR * abs(outside - begin):
                break
        return self._named(edge if outside is None else outside, edge, side)

    def _refitted(self, inside: Floats, at: float, limit: float) -> End:
        """The least value with the parameter there, from along the valley's floor; if that is too
        much, from straight beside too."""
        along = (at - inside[self.index]) * self._floor(inside)
        starts = [np.clip(inside + along, self.ranges[:, 0], self.ranges[:, 1]), inside.copy()]
        best: End = (math.inf, inside)
        for start in starts:
            start[self.index] = at
            found = polished(self.problem, start, self.held, self.ranges)
            best = min(best, found, key=lambda end: end[0])
            if best[0] <= limit:
                break
        return best

    def _floor(self, theta: Floats) -> Floats:
        """How the others follow the parameter, [6], where residuals are linear in both."""
        slopes = self.problem.slopes(theta)[1]
        free = [i for i, name in enumerate(NAMES) if name not in self.held]
        direction = np.zeros(len(NAMES))
        direction[self.index] = 1
        if free:
            direction[free] = np.linalg.lstsq(slopes[:, free], -slopes[:, self.index], 1e-8)[0]
        return direction

    def _first_step(self, theta: Floats, most: float) -> float:
        """Where the profile would end if residuals were linear, at most a tenth of the range."""
        slopes = self.problem.slopes(theta)[1] @ self._floor(theta)
        low, high = self.ranges[self.index]
        return float(min(math.sqrt(2 * most / max((slopes**2).sum(), 1e-12)), (high - low) / 10))

    def _named(self, value: float, edge: float, side: int) -> tuple[float, bool]:
        """The parameter itself, and whether it is where the search ends. E ends there at 0."""
        name = NAMES[self.index]
        if name not in ("E", "A", "B"):
            return value, value == edge
        if name == "E" and side < 0 and value == edge:
            return 0.0, False
        return math.exp(value), value == edge
