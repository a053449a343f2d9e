"""The verdict of a sweep on curves whose optimum is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probing.sweep_verdict import Floats, gain, mean_interval, movement, optimum

RATES = np.array([5e-4, 1e-3, 2e-3, 4e-3, 8e-3])


def bowl(best: float, low: float = 0.3, jitter: float = 0.01) -> Floats:
    """Errors [rates, 3 seeds], least at log2 rate = log2 best."""
    away = np.log2(RATES / best)[:, None] + jitter * np.array([-1.0, 0.0, 1.0])
    return np.exp(0.1 * away**2) * low


def test_the_best_rate_lies_between_those_tried() -> None:
    found = optimum(RATES, bowl(2.5e-3))
    assert found is not None
    assert (found.place, found.edge) == (2, False)
    np.testing.assert_allclose(found.by_seed[1], np.log2(2.5e-3), atol=1e-6)


def test_a_rate_counts_if_all_its_runs_came_through() -> None:
    errors = bowl(2e-3)
    errors[2, 1] = np.nan
    found = optimum(RATES, errors)
    assert found is not None
    assert found.place in (1, 3)
    assert optimum(RATES, np.full((5, 3), np.nan)) is None


def test_an_optimum_at_the_edge_is_said_to_be_one() -> None:
    found = optimum(RATES, bowl(1e-4))
    assert found is not None
    assert (found.place, found.edge) == (0, True)


@pytest.mark.parametrize(
    ("end", "verdict"), [(1e-3, "down"), (4e-3, "up"), (2.05e-3, "no movement")]
)
def test_movement(end: float, verdict: str) -> None:
    found = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, bowl(end)))
    assert found["verdict"] == verdict
    np.testing.assert_allclose(found["mean"], math.log2(end / 2e-3), atol=0.01)
    assert not found["at_least"]


def test_a_movement_within_the_spread_over_seeds_is_none() -> None:
    """An octave down in one seed, one and two up in the others: two thirds up on average."""
    far = np.stack([bowl(best)[:, 1] for best in (1e-3, 4e-3, 8e-3)], axis=1)
    found = movement(RATES, optimum(RATES, bowl(2e-3)), optimum(RATES, far))
    assert found["verdict"] == "no movement"


def test_movement_is_unknown_without_an_optimum() -> None:
    none = np.full((5, 3), np.nan)
    assert movement(RATES, optimum(RATES, none), optimum(RATES, bowl(2e-3)))["verdict"] == "unknown"
    lost = bowl(2e-3)
    lost[1:, 0] = np.nan
    lost[0] = 0.1
    lost[0, 0] = 0.1
    found = optimum(RATES, lost)
    assert found is not None
    assert found.place == 0


def test_gain_is_that_of_the_best_rates() -> None:
    """Best against best, though at any one rate the difference would be larger."""
    noise = 0.001 * np.array([-1.0, 0.0, 1.0])
    before, after = bowl(1e-3, 0.32, 0.0) + noise, bowl(4e-3, 0.30, 0.0)
    found = gain(before, after)
    assert found["verdict"] == "gain"
    np.testing.assert_allclose(found["mean"], 0.02, atol=1e-9)
    assert gain(after, before)["verdict"] == "loss"


def test_no_gain_within_the_spread() -> None:
    before = bowl(2e-3) + np.array([-0.05, 0.0, 0.06])
    assert gain(before, bowl(2e-3))["verdict"] == "no gain"
    assert gain(np.full((5, 3), np.nan), bowl(2e-3))["verdict"] == "unknown"


def test_one_seed_shows_nothing() -> None:
    assert gain(bowl(2e-3)[:, :1], bowl(2e-3, 0.1)[:, :1])["verdict"] == "no gain"


def test_the_interval_is_students() -> None:
    mean, half = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0
    np.testing.assert_allclose(half, 4.302653 / math.sqrt(3), rtol=1e-6)
