"""Verdicts on trainings: whether one collapsed, by a rule on its loss curve, and when it left its
first plateau; of a sweep over learning rates the best rate, how far it moves with the loops, and
the gain of one residual scaling over another, all with their spread over seeds.

reason = collapse(losses, final=0.9, plain=0.5)         # "" if it did not
"""

from __future__ import annotations

import math
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from looplab.evaluation.bootstrap import Floats
from looplab.training.run_folder.metrics import smoothed

from ..statistics import half_width

DECAY = 0.98  # of the smoothed loss: its noise is that of the mean of 99 losses
MARGIN = 0.5  # the most that a loss may end above its best: nats, or errors over that of zero
RATIO = 1.5  # the most that an error may be over that of the same model of one loop
_LAST = 200  # steps whose mean counts as the end
_SETTLED = 50  # losses that a smoothed one needs to be above their noise


def collapse(losses: ArrayLike, final: float | None = None, plain: float | None = None) -> str:
    """The reason why a run with these losses [steps] collapsed, empty if it did not.

    A loss is not finite; or the mean of the smoothed loss over the last 200 steps is more than 0.5
    above its minimum; or the `final` error is more than 1.5 times the `plain` one, that of the same
    model of one loop, if both are given. (arXiv 2605.18797 calls high plateaus, fluctuations and
    useless models collapse, without numbers: these are ours, for losses in nats or for squared
    errors over that of predicting zero.)
    """
    curve = np.asarray(losses, dtype=np.float64)
    if not np.isfinite(curve).all() or not (final is None or np.isfinite(final)):
        return "not finite"
    smooth = smoothed(curve, DECAY)[_SETTLED - 1 :]
    if len(smooth) and smooth[-_LAST:].mean() > smooth.min() + MARGIN:
        return f"ends {MARGIN:g} above its best"
    if final is not None and plain is not None and final > RATIO * plain:
        return f"error above {RATIO:g} x that of one loop"
    return ""


def plateau_exit(losses: ArrayLike, threshold: float) -> int | None:
    """The first step (counted from 1, at least 50) whose smoothed loss is below `threshold`; None
    if there is none."""
    steps = np.flatnonzero(smoothed(losses, DECAY)[_SETTLED - 1 :] < threshold)
    return int(steps[0]) + _SETTLED if len(steps) else None


class Verdict(TypedDict):
    """What a movement or a gain is, with its mean over seeds and half the width of its 95 %
    interval; or unknown, with the `reason`. `at_least`: the movement may be larger."""

    verdict: str
    reason: NotRequired[str]
    mean: NotRequired[float]
    half: NotRequired[float]
    by_seed: NotRequired[list[float]]
    at_least: NotRequired[bool]


class Optimum(NamedTuple):
    """The best learning rate: `place`, the index of the least mean error over seeds, and log2 of
    each seed's own, interpolated by a parabola; whether the mean's or a seed's is the lowest or the
    highest one tried, so that a better one may lie beyond."""

    place: int
    by_seed: Floats
    at_lowest: bool
    at_highest: bool

    @property
    def edge(self) -> bool:
        """Whether a better rate may lie beyond those tried."""
        return self.at_lowest or self.at_highest


def optimum(rates: Floats, errors: Floats) -> Optimum | None:
    """The optimum of errors [rates, seeds], NaN for a run that diverged. A rate counts, for the
    mean and for each seed, if none of its runs diverged; None if there is no such rate."""
    complete = np.isfinite(errors).all(axis=1)
    if not complete.any():
        return None
    place = int(np.where(complete, errors.mean(axis=1), np.inf).argmin())
    x = np.log2(rates)
    by_seed = np.array(
        [_lowest(x, np.where(complete, np.log(column), np.nan)) for column in errors.T]
    )
    at_ends = [place == end or bool((by_seed == x[end]).any()) for end in (0, len(rates) - 1)]
    return Optimum(place, by_seed, *at_ends)


def least_move(rates: Floats) -> float:
    """The fewest octaves that count as a movement: half the least step between rates."""
    return float(np.diff(np.log2(rates)).min()) / 2


def movement(rates: Floats, few: Optimum | None, many: Optimum | None) -> Verdict:
    """How many octaves the best rate moves from few loops to many: `mean` over seeds, `half` the
    width of its 95 % interval, and the `verdict`.

    It is up or down if the interval excludes 0 and the mean is at least `least_move`, else no
    movement. A best rate at an end of those tried may lie beyond it: then the verdict is up or down
    only if that would add to the movement (`at_least`). Otherwise, for one seed, and if an optimum
    is missing, it is unknown, with the `reason`.
    """
    if few is None or many is None:
        return _unknown("no rate came through with every seed")
    octaves = many.by_seed - few.by_seed
    if len(octaves) < 2:
        return _unknown("one seed has no spread")
    mean, half = mean_interval(octaves)
    is_significant = abs(mean) > half and abs(mean) >= least_move(rates)
    verdict = ("up" if mean > 0 else "down") if is_significant else "no movement"
    # Whether it may be less than measured, and whether it may be more.
    may_be_less, may_be_more = few.at_highest or many.at_lowest, few.at_lowest or many.at_highest
    if {"up": may_be_less, "down": may_be_more, "no movement": may_be_less or may_be_more}[verdict]:
        unknown = _unknown("a best rate is the outermost that was tried")
        return {**unknown, "mean": mean, "half": half, "by_seed": octaves.tolist()}
    return {
        "verdict": verdict,
        "mean": mean,
        "half": half,
        "by_seed": octaves.tolist(),
        "at_least": may_be_less or may_be_more,
    }


def gain(before: Floats, after: Floats) -> Verdict:
    """How far errors `after` are below those `before`, both [rates, seeds], each at its best rate:
    `mean` over seeds, `half` the width of its 95 % interval, and the `verdict`: gain or loss if the
    interval excludes 0, else no gain; unknown, with the `reason`, for one seed and if one of them
    has no best rate."""
    rates = np.arange(1.0, len(before) + 1)  # only their order matters here
    optima = [optimum(rates, errors) for errors in (before, after)]
    if optima[0] is None or optima[1] is None:
        return _unknown("no rate came through with every seed")
    differences = before[optima[0].place] - after[optima[1].place]
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
    return float(values.mean()), half_width(float(error), count - 1, level=0.95)


def _unknown(reason: str) -> Verdict:
    return {"verdict": "unknown", "reason": reason}


def _lowest(x: Floats, y: Floats) -> float:
    """The vertex of the parabola through the least of y [rates] (may be NaN) and its neighbours;
    the rate of the least if it does not have both."""
    i = int(np.nanargmin(y))
    if i in (0, len(x) - 1) or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    left, right = x[i] - x[i - 1], x[i + 1] - x[i]
    rise, fall = (y[i + 1] - y[i]) / right, (y[i] - y[i - 1]) / left
    if rise <= fall:  # a plateau: no vertex
        return float(x[i])
    return float(x[i] - (rise * left + fall * right) / (2 * (rise - fall)))
