"""Means over seeds with their intervals, as curves."""

from __future__ import annotations

import numpy as np
import pytest

from looplab.experiments.named.curves import curve, over_seeds


def test_a_mean_is_over_the_seeds_that_have_one() -> None:
    values = [[1.0, None, None, 4.0], [3.0, 5.0, None, float("inf")], [2.0, 7.0, None, None]]
    drawn = curve("a, b", "none", over_seeds(values))
    assert drawn["name"] == "a-b"
    assert drawn["mean"] == [2.0, 6.0, None, 4.0]
    assert drawn["low"][2:] == [None, None]  # of none and of one seed
    assert drawn["low"][1] == 5.0
    assert drawn["high"][1] == 7.0


def test_the_interval_of_many_seeds_is_that_of_their_mean() -> None:
    values = np.random.default_rng(0).normal(size=(400, 3))
    low, high = over_seeds(values).low, over_seeds(values).high
    half = 1.645 * values.std(0, ddof=1) / 20
    np.testing.assert_allclose(high - low, 2 * half, rtol=0.1)


def test_one_seed_has_no_interval() -> None:
    drawn = curve("one", "none", over_seeds([[1.0, 2.0]]), number=4)
    assert drawn["mean"] == [1.0, 2.0]
    assert drawn["low"] == drawn["high"] == [None, None]
    assert drawn["number"] == 4


@pytest.mark.parametrize("seeds", [2, 3])
def test_all_seeds_alike_have_an_interval_of_no_width(seeds: int) -> None:
    interval = over_seeds([[0.5, 2.0]] * seeds)
    assert interval.low.tolist() == interval.high.tolist() == [0.5, 2.0]
