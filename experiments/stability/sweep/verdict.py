"""What a sweep over learning rates says: where the best rate lies, how far it moves with the loops,
and what one residual scaling gains over another; all with their spread over seeds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]


class Optimum(NamedTuple):
    """The best learning rate: `place` of that whose mean error over seeds is least, and for each
    seed log2 of its own, between rates by a parabola; whether the mean's or a seed's is the lowest
    or the highest that was tried, so that a better one may lie beyond."""

    place: int
    by_seed: Floats
    at_lowest: bool
    at_highest: bool

    @property
    def edge(self) -> bool:
        """Whether a better rate may lie beyond those tried."""
        return self.at_lowest or self.at_highest


def optimum(rates: Floats, errors: Floats) -> Optimum | None:
    """Of errors [rates, seeds], NaN where a run diverged. A rate counts, for the mean and for each
    seed, if none of its runs did; None where there is no such rate."""
    whole = np.isfinite(errors).all(axis=1)
    if not whole.any():
        return None
    place = int(np.where(whole, errors.mean(axis=1), np.inf).argmin())
    x = np.log2(rates)
    own = np.array([_lowest(x, np.where(whole, np.log(column), np.nan)) for column in errors.T])
    ends = [place == at or bool((own == x[at]).any()) for at in (0, len(rates) - 1)]
    return Optimum(place, own, *ends)


def least_move(rates: Floats) -> float:
    """The fewest octaves that count as a movement: half the least step between rates."""
    return float(np.diff(np.log2(rates)).min()) / 2


def movement(rates: Floats, few: Optimum | None, many: Optimum | None) -> dict[str, Any]:
    """How many octaves the best rate moves from few loops to many: `mean` over seeds, `half` the
    width of its 95 % interval, and the `verdict`.

    It is up or down where the interval excludes 0 and the mean is at least `least_move`, else no
    movement. A best rate at an end of those tried may lie beyond it: then the verdict is up or down
    only where the rest would add to the movement (`at_least`). Otherwise, for one seed, and where
    an optimum is missing, it is unknown, with the `reason`.
    """
    if few is None or many is None:
        return _unknown("no rate came through with every seed")
    octaves = many.by_seed - few.by_seed
    if len(octaves) < 2:
        return _unknown("one seed has no spread")
    mean, half = mean_interval(octaves)
    found = {"mean": mean, "half": half, "by_seed": octaves.tolist()}
    moves = abs(mean) > half and abs(mean) >= least_move(rates)
    verdict = ("up" if mean > 0 else "down") if moves else "no movement"
    # Whether it may be less than measured, and whether it may be more.
    less, more = few.at_highest or many.at_lowest, few.at_lowest or many.at_highest
    if {"up": less, "down": more, "no movement": less or more}[verdict]:
        return _unknown("a best rate is the outermost that was tried") | found
    return {"verdict": verdict, **found, "at_least": less or more}


def gain(before: Floats, after: Floats) -> dict[str, Any]:
    """What errors `after` are below those `before`, both [rates, seeds], each at its best rate:
    `mean` over seeds, `half` the width of its 95 % interval, and the `verdict`: gain or loss where
    the interval excludes 0, else no gain; unknown, with the `reason`, for one seed and where one of
    them has no best rate."""
    rates = np.arange(1.0, len(before) + 1)  # only their order matters here
    ends = [optimum(rates, errors) for errors in (before, after)]
    if ends[0] is None or ends[1] is None:
        return _unknown("no rate came through with every seed")
    differences = before[ends[0].place] - after[ends[1].place]
    if len(differences) < 2:
        return _unknown("one seed has no spread")
    mean, half = mean_interval(differences)
    verdict = ("gain" if mean > 0 else "loss") if abs(mean) > half else "no gain"
    return {"verdict": verdict, "mean": mean, "half": half, "by_seed": differences.tolist()}


def mean_interval(values: Floats) -> tuple[float, float]:
    """The mean of values [seeds], two or more, and half the width of its 95 % interval by Student's
    t."""
    count = len(values)
    error = values.std(ddof=1) / math.sqrt(count)
    return float(values.mean()), float(student.ppf(0.975, count - 1) * error)


def _unknown(reason: str) -> dict[str, Any]:
    return {"verdict": "unknown", "reason": reason}


def _lowest(x: Floats, y: Floats) -> float:
    """Where the parabola through the least of y [rates], NaN where there is none, and its
    neighbours has its vertex; that rate itself where it has not both."""
    i = int(np.nanargmin(y))
    if i in (0, len(x) - 1) or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    left, right = x[i] - x[i - 1], x[i + 1] - x[i]
    rise, fall = (y[i + 1] - y[i]) / right, (y[i] - y[i - 1]) / left
    if rise <= fall:  # a plateau: no vertex
        return float(x[i])
    return float(x[i] - (rise * left + fall * right) / (2 * (rise - fall)))
