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
    """The best learning rate: `place` of that whose mean error over seeds is least, whether it is
    at an `edge` of the rates, and for each seed log2 of its own, between rates by a parabola; NaN
    for a seed with no run that came through."""

    place: int
    edge: bool
    by_seed: Floats


def optimum(rates: Floats, errors: Floats) -> Optimum | None:
    """Of errors [rates, seeds], NaN where a run diverged. A rate counts if none of its runs did;
    None where there is no such rate."""
    whole = np.isfinite(errors).all(axis=1)
    if not whole.any():
        return None
    means = np.where(whole, errors.mean(axis=1), np.inf)
    place = int(means.argmin())
    own = [_lowest(np.log2(rates), np.log(column)) for column in errors.T]
    return Optimum(place, place in (0, len(rates) - 1), np.array(own))


def movement(rates: Floats, few: Optimum | None, many: Optimum | None) -> dict[str, Any]:
    """How many octaves the best rate moves from few loops to many: `mean` over seeds, `half` the
    width of its 95 % interval, and the `verdict`.

    It is up or down where the interval excludes 0 and the mean is at least half a step between
    rates, else no movement; `at_least` says that an optimum at an edge may lie beyond.
    """
    if few is None or many is None:
        return {"verdict": "unknown"}
    octaves = many.by_seed - few.by_seed
    if not np.isfinite(octaves).all():
        return {"verdict": "unknown"}
    mean, half = mean_interval(octaves)
    step = float(np.diff(np.log2(rates)).mean())
    moves = abs(mean) > half and abs(mean) >= step / 2
    verdict = ("up" if mean > 0 else "down") if moves else "no movement"
    found = {"verdict": verdict, "mean": mean, "half": half, "by_seed": octaves.tolist()}
    return found | {"at_least": few.edge or many.edge}


def gain(before: Floats, after: Floats) -> dict[str, Any]:
    """What errors `after` are below those `before`, both [rates, seeds], each at its best rate:
    `mean` over seeds, `half` the width of its 95 % interval, and the `verdict`: gain or loss where
    the interval excludes 0, else no gain."""
    rates = np.arange(1.0, len(before) + 1)  # only their order matters here
    ends = [optimum(rates, errors) for errors in (before, after)]
    if ends[0] is None or ends[1] is None:
        return {"verdict": "unknown"}
    differences = before[ends[0].place] - after[ends[1].place]
    mean, half = mean_interval(differences)
    verdict = ("gain" if mean > 0 else "loss") if abs(mean) > half else "no gain"
    return {"verdict": verdict, "mean": mean, "half": half, "by_seed": differences.tolist()}


def mean_interval(values: Floats) -> tuple[float, float]:
    """The mean of values [seeds] and half the width of its 95 % interval by Student's t; infinite
    for one seed."""
    count = len(values)
    if count < 2:
        return float(values.mean()), math.inf
    error = values.std(ddof=1) / math.sqrt(count)
    return float(values.mean()), float(student.ppf(0.975, count - 1) * error)


def _lowest(x: Floats, y: Floats) -> float:
    """Where the parabola through the least of y [rates] and its neighbours has its vertex; that
    rate itself where it has not both."""
    if not np.isfinite(y).any():
        return math.nan
    i = int(np.nanargmin(y))
    if i in (0, len(x) - 1) or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    left, right = x[i] - x[i - 1], x[i + 1] - x[i]
    rise, fall = (y[i + 1] - y[i]) / right, (y[i] - y[i - 1]) / left
    if rise <= fall:  # a plateau: no vertex
        return float(x[i])
    return float(x[i] - (rise * left + fall * right) / (2 * (rise - fall)))
