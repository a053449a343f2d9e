"""Estimates: intervals of a quantity over training seeds and prompts.

hierarchical_bootstrap([looped, standard], lambda means: means[0] / means[1], log=True)

Few trainings are the rule. Resampling S seeds gives (S - 1) / S of their variance, half of it for
two. Its tails are no wider for a variance that is only estimated.

Student's t on the seeds' own means keeps its level for few seeds (Colas, Sigaud, Oudeyer, arXiv
1904.06979); for two groups it has Welch's form. The bootstrap keeps the skew of errors over
prompts. The interval is the outer of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtr, stdtrit  # Student's t; scipy.stats takes a second to import

from .bootstrap import Floating, Floats, Interval, crossed_means
from .plain import Content, Fields

LEVEL = 0.9
RESAMPLES = 2000
SEED = 2024
_MOST_SEEDS = 100  # that are thought of
Z = float(ndtri((1 + LEVEL) / 2))  # standard errors in half the interval of a normal variable
_ENDS = (100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2)
# A ratio of errors is infinite where a solver is exact, and nan where both are.
_quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")

Statistic = Callable[[Sequence[Floats]], Floats]


def finite(value: float) -> float | None:
    """The number, None if it is not finite."""
    return float(value) if math.isfinite(value) else None


class NotMeasured(Exception):
    """A claim cannot be judged from what there is; the message says why, in one line."""


class Estimate(NamedTuple):
    """A quantity with its 90 % interval (nan where there is none): what measures find and claims
    are judged by. `note` is what a reader of the interval must know, `seeds` those of training.
    `over` is what the interval is over: more seeds narrow no other one.

    A claim on results of other commands says itself after how many training `steps` and on what
    `size` of model and task they were measured. Of one on runs the judge reads both from them.

    Examples
    --------
    >>> from looplab import Estimate
    >>> Estimate(0.9, 0.8, 1.1, seeds=4).mean
    0.9
    """

    mean: float
    low: float
    high: float
    seeds: int
    steps: int | None = None
    size: str = ""
    note: str = ""
    over: str = "seed"

    def plain(self) -> Fields:
        """The estimate of a measure as JSON has it: None where a number is not finite."""
        mean, low, high = map(finite, self[:3])
        return {"mean": mean, "low": low, "high": high, "seeds": self.seeds, "note": self.note}

    @classmethod
    def read(cls, values: Content) -> Estimate:
        """The estimate of what `plain` returned; NotMeasured if it is not finite."""
        mean, low, high, note = (values[key] for key in ("mean", "low", "high", "note"))
        if mean is None:
            raise NotMeasured("the quantity is not finite")
        if low is None or high is None:
            raise NotMeasured(note or "its interval is not finite")
        return cls(mean, low, high, values["seeds"], note=note)


def hierarchical_bootstrap(
    groups: Sequence[Floating],
    statistic: Statistic,
    *,
    log: bool = False,
    trained: Sequence[bool] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """Return a single number and its 90 % interval; arguments as of `interval_over_seeds`.

    `trained` says which groups are of trainings; the others, of solvers, have no seeds to count.
    """
    interval = interval_over_seeds(groups, statistic, log=log, resamples=resamples, seed=seed)
    mean, low, high = map(float, interval)
    seeds = []
    for group, is_trained in zip(groups, trained or [True] * len(groups), strict=True):
        if is_trained:
            seeds.append(len(group))
    if not math.isfinite(mean):
        return Estimate(mean, math.nan, math.nan, min(seeds))
    return Estimate(mean, low, high, min(seeds), note=_note(seeds))


@_quiet
def interval_over_seeds(
    groups: Sequence[Floating],
    statistic: Statistic = itemgetter(0),
    *,
    log: bool = False,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Return a statistic, [...], of the means of groups of trainings, with its 90 % interval: the
    one rule for seeds, in tables and figures as for claims.

    Each group has the values [seeds, prompts, ...] of one configuration; all groups are on the same
    prompts, which are resampled together, while seeds are resampled group by group. `statistic`
    gets the mean of each group, [..., values], and returns the quantity for each leading index.
    `log` says that it is positive and that its logarithm is closer to a normal variable, as that of
    an error or a ratio. With one seed in every group the interval is over prompts alone.
    """
    floats = [np.asarray(group, dtype=np.float64) for group in groups]
    value = np.asarray(statistic([group.mean((0, 1)) for group in floats]))
    resampled = statistic(crossed_means(floats, resamples, seed))
    low, high = np.percentile(resampled, _ENDS, axis=0)
    if max(map(len, floats)) > 1:
        scale = np.log if log else np.asarray
        variances = _variances(floats, statistic, scale, resamples, seed)
        half = half_width(*_standard_error(variances))
        low_by_student = scale(value) - half
        high_by_student = scale(value) + half
        if log:
            low_by_student = np.exp(low_by_student)
            high_by_student = np.exp(high_by_student)
        has_none = ~np.isfinite(half)
        if log and has_none.any():
            # Without one of the seeds a mean may be 0, as of few wrong answers: no logarithm. Then
            # the plain interval stands, cut at 0; without an end where that is unknown too.
            variances = _variances(floats, statistic, np.asarray, resamples, seed)
            plain = np.nan_to_num(half_width(*_standard_error(variances)), nan=np.inf)
            low_by_student = np.where(has_none, np.maximum(value - plain, 0), low_by_student)
            high_by_student = np.where(has_none, value + plain, high_by_student)
        # The outer of the two; where Student's is nan, the bootstrap's.
        low = np.where(low_by_student < low, low_by_student, low)
        high = np.where(high_by_student > high, high_by_student, high)
    return Interval(value, low, high)


def ratio_of(
    parts: Sequence[Floats], trained: Sequence[bool] | None = None, **resampling: int
) -> Estimate:
    """Return the geometric mean of the ratios of each two parts, values [seeds, prompts], with its
    interval; the other arguments are those of `hierarchical_bootstrap`."""

    def statistic(means: Sequence[Floats]) -> Floats:
        # exp of the mean of log(a / b): a factor and its inverse cancel.
        logs = [np.log(a) - np.log(b) for a, b in zip(means[::2], means[1::2], strict=True)]
        return np.exp(np.mean(logs, axis=0))

    return hierarchical_bootstrap(parts, statistic, log=True, trained=trained, **resampling)


@_quiet
def hierarchical_test(
    groups: Sequence[Floats], statistic: Statistic, resamples: int = RESAMPLES
) -> float:
    """The two-sided p-value of a statistic being 0, by the two distributions that
    `hierarchical_bootstrap` makes its interval of: the larger of Student's t and the bootstrap's,
    which is no less than 1 / resamples. Arguments as there; nan where the statistic is not finite.
    """
    center = float(statistic([group.mean((0, 1)) for group in groups]))
    if not math.isfinite(center):
        return math.nan
    crossed = statistic(crossed_means(groups, resamples, SEED))
    tail = min((crossed <= 0).sum(), (crossed >= 0).sum())
    variances = _variances(groups, statistic, np.asarray, resamples, SEED)
    error, freedom = _standard_error(variances)
    if not np.isfinite(error):  # a seed without which the statistic is not finite
        return 1.0
    # Two-sided, and of no resample beyond 0 half a one: p is never 0.
    by_bootstrap = min(2 * max(tail, 0.5) / resamples, 1.0)
    by_student = 2 * float(stdtr(freedom, -abs(center) / error)) if error > 0 else math.nan
    return float(np.fmax(by_student, by_bootstrap))


@_quiet
def over_seeds(
    values: ArrayLike, errors: ArrayLike | None = None, *, log: bool = False, what: str = "seed"
) -> Estimate:
    """The mean of one value for each seed (with `log`: the geometric mean), with its 90 % interval
    by Student's t. `errors` are the values' standard errors over prompts, which all share; they
    alone make the interval of a single value.

    Raises NotMeasured for one value without an error: it has no spread.

    Examples
    --------
    >>> from looplab import over_seeds
    >>> over_seeds([0.8, 1.0, 1.2]).seeds
    3
    """
    numbers = np.asarray(values, dtype=np.float64).reshape(-1)
    spreads = np.zeros_like(numbers) if errors is None else np.asarray(errors, dtype=np.float64)
    if len(numbers) < 2 and errors is None:
        raise NotMeasured(f"one {what} has no spread" if len(numbers) else f"no {what}")
    if log:
        spreads = spreads / numbers  # those of the logarithms, to first order
        numbers = np.log(numbers)
    # All values are of the same prompts: averaging them leaves this variance as it is.
    variances = [(np.square(spreads).mean(), math.inf)]
    if len(numbers) > 1:
        variances.append((numbers.var(ddof=1) / len(numbers), len(numbers) - 1.0))
    half = half_width(*_standard_error(variances))
    ends = numbers.mean() + half * np.array([0, -1, 1])
    mean, low, high = map(float, np.exp(ends) if log else ends)
    return Estimate(mean, low, high, seeds=len(numbers), note=_note([len(numbers)]), over=what)


def absolute(found: Estimate) -> Estimate:
    """The size of a quantity of either sign: its interval reaches to 0 where the quantity's covers
    it."""
    low = min(abs(found.low), abs(found.high))
    if found.low <= 0 <= found.high:
        low = 0.0
    high = max(abs(found.low), abs(found.high))
    return found._replace(mean=abs(found.mean), low=low, high=high)


def seeds_note(line: float, estimate: Estimate, level: float = LEVEL) -> str:
    """Says how many seeds would settle on which side of a line a quantity is, by an interval of
    this level. Empty for one seed, which shows no spread, where the interval has no end, and where
    it is not over seeds.

    Mean and spread of seeds are taken to stay what they are, and the spread to be all of the
    interval. Student's interval of n seeds is t(n - 1) / √n times it, for a ratio in logarithms.
    """
    mean, low, high = estimate[:3]
    if estimate.seeds < 2 or estimate.over != "seed" or not math.isfinite(low + high):
        return ""
    # An interval that reaches further up is one of logarithms, as of a ratio.
    if low > 0 and high - mean > mean - low:
        mean, low, high, line = map(math.log, (mean, low, high, line))
    # What stays as seeds are added: the standard deviation over seeds, if all of it is theirs.
    spread = max(high - mean, mean - low) / _student(estimate.seeds, LEVEL)
    for seeds in range(estimate.seeds + 1, _MOST_SEEDS + 1):
        if spread * _student(seeds, level) < abs(mean - line):
            return f"about {seeds} seeds would settle it"
    return f"more than {_MOST_SEEDS} seeds would be needed: the number lies at the line"


def _student(seeds: int, level: float) -> float:
    """Half the width of Student's interval of so many values of spread 1."""
    return float(half_width(1 / math.sqrt(seeds), seeds - 1, level))


def half_width(error: ArrayLike, freedom: ArrayLike, level: float = LEVEL) -> Floats:
    """Half the width of Student's interval for a standard error with these degrees of freedom."""
    return np.asarray(stdtrit(freedom, (1 + level) / 2) * error)


def _note(seeds: Sequence[int]) -> str:
    """A note on what a reader must know of an interval with a single seed in it."""
    if max(seeds) == 1:
        return "one seed: the interval is over prompts alone"
    return "some models have one seed, of which it shows no spread" if min(seeds) == 1 else ""


def _variances(
    floats: Sequence[Floats],
    statistic: Statistic,
    scale: Callable[[Floats], Floats],
    resamples: int,
    seed: int,
) -> list[tuple[Floats, float]]:
    """The variance of the scaled statistic over prompts, and that over the seeds of each group that
    has several, each with its degrees of freedom."""
    variances = list[tuple[Floats, float]]()
    prompts = floats[0].shape[1]
    if prompts > 1:
        over_prompts = crossed_means(floats, resamples, seed, resample_seeds=False)
        scaled = scale(statistic(over_prompts))
        # A resample of prompts may have no error at all, and so no logarithm.
        is_finite = np.isfinite(scaled)
        finite_part = np.where(is_finite, scaled, np.nan)
        has_gaps = is_finite.any() and not is_finite.all()
        variance = np.nanvar(finite_part, axis=0) if has_gaps else np.var(scaled, axis=0)
        variances.append((variance, prompts - 1.0))
    whole = [group.mean((0, 1)) for group in floats]
    for index, group in enumerate(floats):
        count = len(group)
        if count == 1:
            continue
        # The jackknife: each seed is left out once, and the other groups are whole.
        by_seed = group.mean(1)
        means = [np.repeat(mean[None], count, axis=0) for mean in whole]
        means[index] = (by_seed.sum(0) - by_seed) / (count - 1)
        variance = (count - 1) * np.var(scale(statistic(means)), axis=0)
        variances.append((variance, count - 1.0))
    return variances


def _standard_error(variances: Sequence[tuple[Floats, float]]) -> tuple[Floats, Floats]:
    """The standard error of a sum of independent variables with these estimated variances and
    degrees of freedom, and its degrees of freedom by Welch and Satterthwaite."""
    total = np.asarray(sum(variance for variance, _ in variances))
    # ν = (Σ v)² / Σ (v² / ν of v)
    shares = [(variance / total) ** 2 / freedom for variance, freedom in variances]
    freedom = 1 / np.asarray(sum(shares))
    # Without a spread there is nothing to estimate.
    return np.sqrt(total), np.where(total > 0, freedom, math.inf)
