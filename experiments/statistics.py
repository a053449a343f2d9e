"""Intervals of a claim's quantity over training seeds and prompts.

hierarchical_bootstrap([looped, standard], lambda means: means[0] / means[1], log=True)

Few trainings are the rule. Resampling S seeds gives (S - 1) / S of their variance, half of it for
two, and no wider tails for not knowing it. Student's t on the seeds' own means keeps its level for
few seeds (Colas, Sigaud, Oudeyer, arXiv 1904.06979, Welch's form of it for two groups), the
bootstrap keeps the skew of errors over prompts. The interval is the outer of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes a second to import

from looplab.evaluation.bootstrap import Floats, crossed_means

from .claims import Estimate, NotMeasured

LEVEL = 0.9
RESAMPLES, SEED = 2000, 2024
_ENDS = (100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2)

Statistic = Callable[[Sequence[Floats]], Floats]


def hierarchical_bootstrap(
    groups: Sequence[NDArray[np.floating]],
    statistic: Statistic,
    *,
    log: bool = False,
    trained: Sequence[bool] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """A statistic of the means of several groups of trainings, with its 90 % interval.

    Each group has the values [seeds, prompts, ...] of one configuration; all groups are on the same
    prompts, which are resampled together, while seeds are resampled group by group. `statistic`
    gets the mean of each group, [..., values], and returns the quantity for each leading index.
    `log` says that it is positive and that its logarithm is closer to a normal variable, as that of
    a ratio. `trained` says which groups are of trainings; the others, of solvers, have no seeds to
    count. With one seed in every group the interval is over prompts alone.
    """
    floats = [np.asarray(group, dtype=np.float64) for group in groups]
    value = float(statistic([group.mean((0, 1)) for group in floats]))
    seeds = [len(group) for group in floats]
    of_trainings = [n for n, is_trained in zip(seeds, trained or seeds, strict=True) if is_trained]
    if not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, min(of_trainings))
    crossed = statistic(crossed_means(floats, resamples, seed))
    low, high = map(float, np.percentile(crossed, _ENDS))
    if max(seeds) > 1:
        scale = _log if log else np.asarray
        parts = _parts(floats, statistic, scale, resamples, seed)
        half, center = _half_width(parts), float(scale(value))
        ends = (center - half, center + half)
        if log:
            ends = (_exp(ends[0]), _exp(ends[1]))
        low, high = min(low, ends[0]), max(high, ends[1])
    return Estimate(value, low, high, min(of_trainings), note=_note(of_trainings))


def hierarchical_test(
    groups: Sequence[NDArray[np.floating]],
    statistic: Statistic,
    *,
    log: bool = False,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> float:
    """The two-sided p-value of a statistic being 0 (with `log`: 1), by the two distributions that
    `hierarchical_bootstrap` makes its interval of: the larger of Student's t and the bootstrap's,
    which is no less than 1 / resamples. Arguments as there; nan where the statistic is not finite.
    """
    floats = [np.asarray(group, dtype=np.float64) for group in groups]
    scale = _log if log else np.asarray
    center = float(scale(statistic([group.mean((0, 1)) for group in floats])))
    if not math.isfinite(center):
        return math.nan
    crossed = scale(statistic(crossed_means(floats, resamples, seed)))
    tail = min((crossed <= 0).sum(), (crossed >= 0).sum())
    parts = _parts(floats, statistic, scale, resamples, seed)
    error, freedom = _standard_error(parts)
    by_student = 2 * float(stdtr(freedom, -abs(center) / error)) if error > 0 else math.nan
    return float(np.fmax(by_student, min(2 * max(tail, 0.5) / resamples, 1.0)))


def over_seeds(
    values: ArrayLike, errors: ArrayLike | None = None, *, log: bool = False, what: str = "seed"
) -> Estimate:
    """The mean of one value for each seed (with `log`: the geometric mean), with its 90 % interval
    by Student's t. `errors` are the values' standard errors over prompts, which all share; they
    alone make the interval of a single value.

    Raises NotMeasured for one value without an error: it has no spread.
    """
    numbers = np.asarray(values, dtype=np.float64).reshape(-1)
    spreads = np.zeros_like(numbers) if errors is None else np.asarray(errors, dtype=np.float64)
    if len(numbers) < 2 and errors is None:
        raise NotMeasured(f"one {what} has no spread" if len(numbers) else f"no {what}")
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers, spreads = np.log(numbers), spreads / numbers  # to first order
    parts = [(float(np.square(spreads).mean()), math.inf)]
    if len(numbers) > 1:
        parts.append((float(numbers.var(ddof=1)) / len(numbers), len(numbers) - 1.0))
    mean, half = float(numbers.mean()), _half_width(parts)
    ends = (mean, mean - half, mean + half)
    if log:
        ends = (_exp(ends[0]), _exp(ends[1]), _exp(ends[2]))
    return Estimate(*ends, seeds=len(numbers), note=_note([len(numbers)]))


def absolute(found: Estimate) -> Estimate:
    """The size of a quantity of either sign: its interval reaches to 0 where the quantity's covers
    it."""
    ends = abs(found.low), abs(found.high)
    low = 0.0 if found.low <= 0 <= found.high else min(ends)
    return found._replace(mean=abs(found.mean), low=low, high=max(ends))


def half_width(error: float, freedom: float, level: float = LEVEL) -> float:
    """Half the width of Student's interval for a standard error with these degrees of freedom."""
    return float(stdtrit(freedom, (1 + level) / 2)) * error


def _note(seeds: Sequence[int]) -> str:
    """What a reader must know of an interval with a single seed in it."""
    if max(seeds) == 1:
        return "one seed: the interval is over prompts alone"
    return "some models have one seed, of which it shows no spread" if min(seeds) == 1 else ""


def _parts(
    floats: Sequence[Floats],
    statistic: Statistic,
    scale: Callable[[ArrayLike], Floats],
    resamples: int,
    seed: int,
) -> list[tuple[float, float]]:
    """The variance of the scaled statistic over prompts, and that over the seeds of each group that
    has several, each with its degrees of freedom."""
    over_prompts = crossed_means(floats, resamples, seed, resample_seeds=False)
    parts = [(_variance(scale(statistic(over_prompts))), floats[0].shape[1] - 1.0)]
    for index, count in enumerate(map(len, floats)):
        if count > 1:
            left_out = scale(statistic(_without_each_seed(floats, index)))
            parts.append(((count - 1) * _variance(left_out), count - 1.0))
    return parts


def _half_width(parts: Sequence[tuple[float, float]]) -> float:
    """Half the width of the interval of a sum of independent variables, see `_standard_error`."""
    error, freedom = _standard_error(parts)
    return half_width(error, freedom) if error else error


def _standard_error(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The standard error of a sum of independent variables with these estimated variances and
    degrees of freedom, and its degrees of freedom by Welch and Satterthwaite."""
    total = sum(variance for variance, _ in parts)
    if not total > 0:
        return (0.0 if total == 0 else math.nan), math.inf
    inverse = sum((variance / total) ** 2 / freedom for variance, freedom in parts)
    return math.sqrt(total), (1 / inverse if inverse else math.inf)


def _without_each_seed(groups: Sequence[Floats], index: int) -> list[Floats]:
    """The means of all groups, [seeds, ...], with one seed after another left out of one group."""
    by_seed = groups[index].mean(1)
    count = len(by_seed)
    means = [np.repeat(group.mean((0, 1))[None], count, axis=0) for group in groups]
    means[index] = (by_seed.sum(0) - by_seed) / (count - 1)
    return means


def _log(values: ArrayLike) -> Floats:
    """Logarithms; those of 0, as of the error of an exact solver, are infinite."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(values, dtype=np.float64))


def _variance(values: Floats) -> float:
    """The variance; nan where a value is infinite."""
    with np.errstate(invalid="ignore"):
        return float(values.var())


def _exp(value: float) -> float:
    """e to the value, infinite beyond what a float holds."""
    return math.exp(value) if value < 700 else math.inf if value == value else value
