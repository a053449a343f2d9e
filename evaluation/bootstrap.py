"""Bootstrap intervals of means over prompts, and over prompts and training seeds."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floating = NDArray[np.floating]  # of any precision


class Band(TypedDict):
    """Means over prompts and their 90 % intervals, as plain values; None in place of nan."""

    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]


class Interval(NamedTuple):
    """A mean over prompts and its 90 % interval, each of shape [...]."""

    mean: Floats
    low: Floats
    high: Floats

    def to_json(self) -> Band:
        """The three as plain lists."""
        return {"mean": plain(self.mean), "low": plain(self.low), "high": plain(self.high)}


def plain(values: Floating) -> list[float | None]:
    """The values as a list, None in place of nan."""
    return [None if np.isnan(value) else float(value) for value in values]


def numbers(values: Sequence[float | None]) -> Floats:
    """The values as an array, nan in place of None."""
    return np.array(values, dtype=np.float64)


def over(band: Band, unit: float) -> Band:
    """The means and intervals in another unit."""
    mean = numbers(band["mean"]) / unit
    low = numbers(band["low"]) / unit
    high = numbers(band["high"]) / unit
    return Interval(mean, low, high).to_json()


def bootstrap(errors: Floating, resamples: int, seed: int) -> Interval:
    """Mean over the first axis of errors [prompts, ...], with the 5th and 95th percentile of the
    means of `resamples` resamples of the prompts.

    The same seed resamples the same prompts: the interval of a difference of two models' errors is
    paired.
    """
    mean = errors.mean(0, dtype=np.float64)
    low, high = np.percentile(resampled_means(errors, resamples, seed), (5, 95), axis=0)
    return Interval(mean, low, high)


def resampled_means(errors: Floating, resamples: int, seed: int) -> Floats:
    """The means of errors [prompts, ...] over each of `resamples` resamples of the prompts,
    [resamples, ...]."""
    return crossed_means([errors[None]], resamples, seed)[0]


def clustered_bootstrap(
    sums: Floating, counts: NDArray[np.integer], resamples: int, seed: int
) -> Interval:
    """Mean of values that come in clusters, each cluster measured once for each of some training
    seeds: sums [seeds, clusters, ...] of counts [clusters] values each.

    Whole clusters are resampled, and whole seeds (a single seed is not resampled): values of one
    cluster, or of one training, are not independent. Percentiles as in `bootstrap`.
    """
    seeds = len(sums)
    mean = sums.sum((0, 1), dtype=np.float64) / (seeds * counts.sum())
    (totals,), (cluster_counts,) = _crossed_totals([sums], resamples, seed)
    # A resample of clusters has another number of values: a ratio of two sums.
    values = cluster_counts @ counts * seeds
    means = totals / values.reshape(-1, *[1] * mean.ndim)
    low, high = np.percentile(means, (5, 95), axis=0)
    return Interval(mean, low, high)


def crossed_means(
    groups: Sequence[Floating],
    resamples: int,
    seed: int,
    *,
    resample_seeds: bool = True,
) -> list[Floats]:
    """The means of several groups of trainings on the same prompts, each of errors [seeds, prompts,
    ...], over each resample: [resamples, ...] each.

    A resample draws prompts for all groups together, so that statistics of several groups are
    paired by prompt. It draws the seeds of each group for itself (a single one, or without
    `resample_seeds`: every one once). Groups of another number of prompts are drawn for themselves.
    """
    totals, _ = _crossed_totals(groups, resamples, seed, resample_seeds)
    return [total / np.prod(group.shape[:2]) for total, group in zip(totals, groups, strict=True)]


def _crossed_totals(
    groups: Sequence[Floating],
    resamples: int,
    seed: int,
    resample_seeds: bool = True,
) -> tuple[list[Floats], list[Floats]]:
    """The sums of groups [seeds, clusters, ...] over each resample of both, [resamples, ...] each,
    and the counts of each group's clusters, [resamples, clusters] each: by these all sums are one
    matrix product."""
    lengths = dict.fromkeys(group.shape[1] for group in groups)
    by_length, state = _cluster_counts(tuple(lengths), resamples, seed)
    # Seeds are drawn after the clusters, whose draws may come from the cache.
    random = np.random.default_rng()
    random.bit_generator.state = state
    totals = []
    for group in groups:
        seeds, clusters = group.shape[:2]
        # Trailing axes are one: [clusters, seeds, values].
        by_cluster = group.reshape(seeds, clusters, -1).swapaxes(0, 1).astype(np.float64)
        # [resamples, clusters] @ [clusters, seeds · values].
        sums = by_length[clusters] @ by_cluster.reshape(clusters, -1)
        by_seed = sums.reshape(resamples, seeds, -1)
        seed_counts = np.ones((resamples, seeds), dtype=np.int64)
        if resample_seeds:
            seed_counts = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
        # Seeds are weighed by how often each is drawn in the same resample.
        total = np.einsum("rs,rsv->rv", seed_counts, by_seed)
        totals.append(total.reshape(-1, *group.shape[2:]))
    return totals, [by_length[group.shape[1]] for group in groups]


@lru_cache(maxsize=2)  # drawing them takes most of the time of an interval
def _cluster_counts(
    lengths: tuple[int, ...], resamples: int, seed: int
) -> tuple[dict[int, Floats], Mapping[str, Any]]:
    """How often each cluster is drawn in each resample, [resamples, clusters] by the number of
    clusters; and the state of the generator after that."""
    random = np.random.default_rng(seed)
    counts = {}
    for length in lengths:
        # Counts of n draws with replacement from n: the order of draws does not bear on a sum.
        drawn = random.multinomial(length, np.full(length, 1 / length), size=resamples)
        counts[length] = drawn.astype(np.float64)  # whole numbers, as the products take them
    return counts, random.bit_generator.state
