"""Bootstrap intervals against an index-by-index resampling, and how often they cover the truth."""

import numpy as np

from looplab.evaluation.bootstrap import bootstrap, clustered_bootstrap


def test_it_is_the_percentile_interval_of_resampled_means() -> None:
    errors = np.random.default_rng(0).exponential(size=(200, 3))
    interval = bootstrap(errors, resamples=4000, seed=1)
    indices = np.random.default_rng(2).integers(200, size=(4000, 200))
    low, high = np.percentile(errors[indices].mean(1), (5, 95), axis=0)
    np.testing.assert_allclose(interval.mean, errors.mean(0))
    # Percentiles of 4000 means: standard error about 0.03 standard deviations of the mean.
    tolerance = 5 * 0.05 * errors.std(0) / np.sqrt(200)
    assert (np.abs(interval.low - low) < tolerance).all()
    assert (np.abs(interval.high - high) < tolerance).all()


def test_clusters_and_seeds_are_resampled_whole() -> None:
    random = np.random.default_rng(5)
    counts = np.array([2, 3, 4, 1, 3])
    values = [[random.normal(size=(n, 2)) for n in counts] for _ in range(3)]
    sums = np.array([[each.sum(0) for each in own] for own in values])
    found = clustered_bootstrap(sums, counts, resamples=60, seed=9)
    draws = np.random.default_rng(9)
    clusters = draws.multinomial(5, [0.2] * 5, size=60)
    seeds = draws.multinomial(3, [1 / 3] * 3, size=60)
    means = []
    for times, trained in zip(clusters, seeds, strict=True):
        drawn = [
            values[s][c]
            for s in np.repeat(np.arange(3), trained)
            for c in np.repeat(np.arange(5), times)
        ]
        means.append(np.concatenate(drawn).mean(0))
    everything = np.concatenate([each for own in values for each in own])
    np.testing.assert_allclose(found.mean, everything.mean(0))
    np.testing.assert_allclose(found.low, np.percentile(means, 5, axis=0))
    np.testing.assert_allclose(found.high, np.percentile(means, 95, axis=0))
