"""Bootstrap intervals of a mean over prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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


def plain(values: NDArray[np.floating]) -> list[float | None]:
    """The values as a list, None in place of nan."""
    return [None if np.isnan(value) else float(value) for value in values]


def numbers(values: Sequence[float | None]) -> Floats:
    """The values as an array, nan in place of None."""
    return np.array(values, dtype=np.float64)


def bootstrap(errors: NDArray[np.floating], resamples: int, seed: int) -> Interval:
    """Mean over the first axis of errors [prompts, ...], with the 5th and 95th percentile of the
    means of `resamples` resamples of the prompts.

    The same seed resamples the same prompts: the interval of a difference of two models' errors is
    paired.
    """
    mean = errors.mean(0, dtype=np.float64)
    low, high = np.percentile(resampled_means(errors, resamples, seed), (5, 95), axis=0)
    return Interval(mean, low, high)


def resampled_means(errors: NDArray[np.floating], resamples: int, seed: int) -> Floats:
    """The means of errors [prompts, ...] over each of `resamples` resamples of the prompts,
    [resamples, ...]. A resample is represented by its count of each prompt, so that all means are
    one matrix product."""
    prompts = len(errors)
    uniform = np.full(prompts, 1 / prompts)
    counts = np.random.default_rng(seed).multinomial(prompts, uniform, size=resamples)
    means = counts @ errors.reshape(prompts, -1).astype(np.float64) / prompts
    return means.reshape(resamples, *errors.shape[1:])


def clustered_bootstrap(
    sums: NDArray[np.floating], counts: NDArray[np.integer], resamples: int, seed: int
) -> Interval:
    """Mean of values that come in clusters, each cluster measured once for each of some training
    seeds: sums [seeds, clusters, ...] of counts [clusters] values each.

    Whole clusters are resampled, and whole seeds (a single seed is not resampled): values of one
    cluster, or of one training, are not independent. Percentiles as in `bootstrap`.
    """
    seeds, clusters = sums.shape[:2]
    flat = sums.reshape(seeds, clusters, -1).astype(np.float64)
    mean = flat.sum((0, 1)) / (seeds * counts.sum())
    random = np.random.default_rng(seed)
    cluster_counts = random.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples)
    seed_counts = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    totals = np.einsum("rs,rc,scv->rv", seed_counts, cluster_counts, flat, optimize=True)
    means = totals / (seeds * (cluster_counts @ counts))[:, None]
    low, high = np.percentile(means, (5, 95), axis=0)
    shape = sums.shape[2:]
    return Interval(mean.reshape(shape), low.reshape(shape), high.reshape(shape))
