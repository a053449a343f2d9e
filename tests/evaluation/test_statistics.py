"""Intervals over seeds and prompts against resampling by hand, index by index, scipy and simulated
coverage."""

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
import pytest
from scipy import stats

from looplab.evaluation.bootstrap import Floats, bootstrap, clustered_bootstrap, crossed_means
from looplab.evaluation.statistics import (
    NotMeasured,
    hierarchical_bootstrap,
    hierarchical_test,
    interval_over_seeds,
    over_seeds,
)


def difference(means: Sequence[Floats]) -> Floats:
    return means[0] - means[1]


def ratio(means: Sequence[Floats]) -> Floats:
    return means[0] / means[1]


def test_prompts_are_resampled_together_and_seeds_of_each_group_alone() -> None:
    random = np.random.default_rng(0)
    groups = [random.normal(size=(3, 7, 2)), random.normal(size=(2, 7, 2))]
    found = crossed_means(groups, resamples=50, seed=4)
    draws = np.random.default_rng(4)
    prompts = draws.multinomial(7, [1 / 7] * 7, size=50)
    for group, means in zip(groups, found, strict=True):
        seeds = draws.multinomial(len(group), [1 / len(group)] * len(group), size=50)
        for mean, times, trained in zip(means, prompts, seeds, strict=True):
            drawn = group[np.repeat(np.arange(len(group)), trained)]
            drawn = drawn[:, np.repeat(np.arange(7), times)]
            np.testing.assert_allclose(mean, drawn.mean((0, 1)))


def test_with_one_seed_it_is_scipys_bootstrap_of_the_prompts() -> None:
    random = np.random.default_rng(1)
    hard = random.exponential(size=300)
    a, b = hard * random.uniform(0.8, 1.0, 300), hard * random.uniform(0.5, 0.7, 300)
    found = hierarchical_bootstrap([a[None], b[None]], ratio, log=True)
    expected = stats.bootstrap(
        (a, b), lambda x, y: np.mean(x) / np.mean(y), paired=True, confidence_level=0.9,
        method="percentile", n_resamples=4000, vectorized=False, rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    width = expected.high - expected.low
    assert found.mean == pytest.approx(a.mean() / b.mean())
    assert found.low == pytest.approx(expected.low, abs=0.1 * width)
    assert found.high == pytest.approx(expected.high, abs=0.1 * width)
    assert found.seeds == 1
    assert found.note == "one seed: the interval is over prompts alone"


def test_without_spread_over_prompts_it_is_welchs_interval() -> None:
    random = np.random.default_rng(5)
    a, b = random.normal(2, 0.5, size=3), random.normal(1, 0.1, size=4)
    found = hierarchical_bootstrap([np.repeat(x[:, None], 9, 1) for x in (a, b)], difference)
    test = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((test.low, test.high))
    assert found.seeds == 3
    assert not found.note


@pytest.mark.parametrize("seeds", [2, 3])
def test_it_covers_a_known_ratio_where_resampling_alone_does_not(seeds: int) -> None:
    random, draws = np.random.default_rng(7), 300
    inside = resampled = 0
    for draw in range(draws):
        hard = random.gamma(4, 0.25, size=(1, 60))
        groups = [
            level * hard * np.exp(random.normal(-0.02, 0.2, size=(seeds, 1)))
            * np.exp(random.normal(-0.005, 0.1, size=(seeds, 60)))
            for level in (2.0, 1.0)
        ]  # fmt: skip
        found = hierarchical_bootstrap(groups, ratio, log=True, resamples=100, seed=draw)
        inside += found.low <= 2.0 <= found.high
        low, high = np.percentile(ratio(crossed_means(groups, 100, draw)), (5, 95))
        resampled += low <= 2.0 <= high
    noise = 3 * np.sqrt(0.09 / draws)
    assert 0.9 - noise < inside / draws < 0.99
    assert resampled / draws < 0.9 - 2 * noise


def test_over_seeds_is_students_interval() -> None:
    values = np.array([1.0, 1.4, 0.9, 1.1])
    expected = stats.t.interval(0.9, 3, values.mean(), stats.sem(values))
    found = over_seeds(values)
    assert found[:3] == pytest.approx((values.mean(), *expected))
    assert found.seeds == 4
    logs = np.log(values)
    expected = np.exp(stats.t.interval(0.9, 3, logs.mean(), stats.sem(logs)))
    assert over_seeds(values, log=True)[:3] == pytest.approx((stats.gmean(values), *expected))


def test_errors_over_prompts_make_the_interval_of_one_seed() -> None:
    found = over_seeds([2.0], [0.1])
    assert (found.low, found.high) == pytest.approx(stats.norm.interval(0.9, 2.0, 0.1))
    assert "one seed" in found.note
    with pytest.raises(NotMeasured, match="one seed has no spread"):
        over_seeds([2.0])
    with pytest.raises(NotMeasured, match="no seed"):
        over_seeds([])


def test_each_place_of_a_curve_has_the_interval_of_its_number() -> None:
    errors = np.random.default_rng(7).exponential(size=(3, 40, 2))
    curve = interval_over_seeds([errors], log=True)
    for place in range(2):
        number = hierarchical_bootstrap([errors[..., place]], itemgetter(0), log=True)
        assert tuple(part[place] for part in curve) == pytest.approx(number[:3])


def test_no_error_of_two_unlike_seeds_reaches_below_zero() -> None:
    errors = np.array([[[0.9], [0.8]], [[0.1], [0.2]]])
    plain, positive = (interval_over_seeds([errors], log=log) for log in (False, True))
    assert plain.low[0] < 0 < positive.low[0]
    assert positive.high[0] > positive.mean[0]


def test_few_wrong_answers_of_two_seeds_are_not_settled_by_the_prompts_alone() -> None:
    """Some resamples have no wrong answer, and so no logarithm; the seeds still count."""
    wrong = [np.zeros((2, 320)), np.zeros((2, 320))]
    for group, numbers in zip(wrong, ((9, 14), (3, 5)), strict=True):
        for seed, number in enumerate(numbers):
            group[seed, :number] = 1
    found = hierarchical_bootstrap(wrong, ratio, log=True)
    by_prompts = np.percentile(ratio(crossed_means(wrong, 2000, 2024)), 5)
    assert found.low < 0.8 * by_prompts
    assert hierarchical_test(wrong, lambda means: np.log(means[0] / means[1])) > 0.02


def test_a_seed_without_errors_leaves_the_plain_interval_cut_at_zero() -> None:
    errors = np.zeros((2, 320))
    errors[1, :12] = 1
    found = interval_over_seeds([errors], log=True)
    plain = interval_over_seeds([errors])
    assert float(found.low) == 0 > float(plain.low)
    assert float(found.high) == pytest.approx(float(plain.high))


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
