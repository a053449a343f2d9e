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
from scipy.stats import t as student

from reloop.evaluation.bootstrap import Floats, crossed_means

from .claim import Estimate, NotMeasured

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
        over_prompts = crossed_means(floats, resamples, seed, resample_seeds=False)
        parts = [(_variance(scale(statistic(over_prompts))), floats[0].shape[1] - 1.0)]
        for index, count in enumerate(seeds):
            if count > 1:
                left_out = scale(statistic(_without_each_seed(floats, index)))
                parts.append(((count - 1) * _variance(left_out), count - 1.0))
        half, center = _half_width(parts), float(scale(value))
        ends = (center - half, center + half)
        if log:
            ends = (_exp(ends[0]), _exp(ends[1]))
        low, high = min(low, ends[0]), max(high, ends[1])
    return Estimate(value, low, high, min(of_trainings), note=_note(of_trainings))


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


def half_width(error: float, freedom: float, level: float = LEVEL) -> float:
    """Half the width of Student's interval for a standard error with these degrees of freedom."""
    return float(student.ppf((1 + level) / 2, freedom)) * error


def _note(seeds: Sequence[int]) -> str:
    """What a reader must know of an interval with a single seed in it."""
    if max(seeds) == 1:
        return "one seed: the interval is over prompts alone"
    return "some models have one seed, of which it shows no spread" if min(seeds) == 1 else ""


def _half_width(parts: Sequence[tuple[float, float]]) -> float:
    """Of a sum of independent variables with these estimated variances and degrees of freedom; the
    sum's are those of Welch and Satterthwaite."""
    total = sum(variance for variance, _ in parts)
    if not total > 0:
        return 0.0 if total == 0 else math.nan
    inverse = sum((variance / total) ** 2 / freedom for variance, freedom in parts)
    return half_width(math.sqrt(total), 1 / inverse if inverse else math.inf)


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
