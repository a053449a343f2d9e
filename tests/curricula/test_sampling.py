"""Drawn loops against their laws, which are computed here by quadrature."""

from __future__ import annotations

from math import exp, lgamma, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from reloop.curricula import SampledLoops

STEPS = 20_000


def draws(law: Any, b: int, steps: int = STEPS, seed: int = 0) -> NDArray[np.int64]:
    loops = SampledLoops(law, b, (seed, 2))
    return np.array([loops(step) for step in range(steps)])


def poisson_lognormal(b: int, size: int) -> NDArray[np.float64]:
    """Probabilities of 1 .. size loops, with nothing cut: Poisson ones, mixed over τ."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    tau = log(b - 1) - 1 / 8 + node / 2
    more = np.arange(size)[:, None]
    factorials = np.array([[lgamma(k + 1)] for k in range(size)])
    probability: NDArray[np.float64] = np.exp(more * tau - np.exp(tau) - factorials)
    return probability @ (weight / weight.sum())


def cut(probability: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The same with all that lies beyond `most` put there."""
    return np.append(probability[: most - 1], probability[most - 1 :].sum())


def moments(probability: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and variance of a law on 1, 2, …"""
    loops = np.arange(1, len(probability) + 1)
    mean = float(probability @ loops)
    return mean, float(probability @ (loops - mean) ** 2)


@pytest.mark.parametrize("b", [1, 2, 5, 20])
def test_uniform_draws_are_uniform_from_1_to_2b_minus_1(b: int) -> None:
    drawn, most = draws("uniform", b), 2 * b - 1
    counts = np.bincount(drawn, minlength=2 * b)[1:]
    assert len(counts) == most == SampledLoops("uniform", b, (0,)).end
    assert drawn.min() == 1
    assert np.all(counts > 0)
    assert abs(drawn.mean() - b) <= 3 * sqrt((most**2 - 1) / 12 / STEPS)
    assert b == 1 or chisquare(counts).pvalue > 1e-3


def test_uniform_draws_begin_at_the_least() -> None:
    loops = SampledLoops("uniform", 8, (0, 2), least=4)
    drawn = np.array([loops(step) for step in range(STEPS)])
    counts = np.bincount(drawn, minlength=13)
    assert (drawn.min(), drawn.max(), loops.end) == (4, 12, 12)
    assert chisquare(counts[4:]).pvalue > 1e-3
    with pytest.raises(ValueError, match="cannot be drawn"):
        SampledLoops("uniform", 8, (0, 2), least=9)


@pytest.mark.parametrize("b", [2, 5, 20])
def test_the_law_has_the_published_moments_but_for_the_cut(b: int) -> None:
    """Mean b, variance r̄ + r̄² (exp σ² - 1) with r̄ = b - 1; and what is said of the cut."""
    law = poisson_lognormal(b, 40 * b + 60)
    mean, variance = moments(law)
    assert mean == pytest.approx(b)
    assert variance == pytest.approx((b - 1) + (b - 1) ** 2 * (exp(1 / 4) - 1))
    cut_mean, cut_variance = moments(cut(law, SampledLoops("poisson_lognormal", b, ()).end))
    assert 0.999 * mean < cut_mean < mean
    assert 0.975 * variance < cut_variance < variance


@pytest.mark.parametrize("b", [2, 5, 20])
def test_poisson_lognormal_draws_follow_the_law(b: int) -> None:
    drawn, law = draws("poisson_lognormal", b), cut(poisson_lognormal(b, 40 * b + 60), 4 * b)
    mean, variance = moments(law)
    assert abs(drawn.mean() - mean) <= 3 * sqrt(variance / STEPS)
    fourth = float(law @ (np.arange(1, 4 * b + 1) - mean) ** 4)
    assert abs(drawn.var() - variance) <= 3 * sqrt((fourth - variance**2) / STEPS)
    bins = (20 * (np.cumsum(law) - law)).astype(int)  # each beginning in another twentieth
    seen = np.bincount(bins, np.bincount(drawn, minlength=4 * b + 1)[1:])
    expected = np.bincount(bins, STEPS * law)
    there = expected > 0
    assert chisquare(seen[there], expected[there]).pvalue > 1e-3


def test_no_draw_is_beyond_the_cut() -> None:
    """Beyond 4 b lie three draws in a thousand, which are there made 4 b."""
    drawn = draws("poisson_lognormal", 20)
    assert drawn.max() == 80 == SampledLoops("poisson_lognormal", 20, (0,)).end
    assert np.count_nonzero(drawn == 80) > 5


def test_around_one_there_is_one() -> None:
    assert set(draws("poisson_lognormal", 1, 200)) == {1}
    assert SampledLoops("poisson_lognormal", 1, (0,)).end == 1


@pytest.mark.parametrize("law", ["uniform", "poisson_lognormal"])
def test_a_draw_is_a_function_of_the_seed_and_the_step(law: Any) -> None:
    """In any order; and steps, seeds and streams have nothing in common."""
    forwards = draws(law, 20, 400)
    loops = SampledLoops(law, 20, (0, 2))
    assert [loops(step) for step in reversed(range(400))] == forwards[::-1].tolist()
    other_stream = [SampledLoops(law, 20, (0, 3))(step) for step in range(400)]
    for other in (draws(law, 20, 400, seed=1), np.array(other_stream), np.roll(forwards, 1)):
        assert abs(np.corrcoef(forwards, other)[0, 1]) < 0.2


@pytest.mark.parametrize(("law", "b"), [("uniform", 0), ("poisson_lognormal", -1), ("unifrom", 3)])
def test_what_cannot_be_drawn_is_refused(law: Any, b: int) -> None:
    with pytest.raises(ValueError, match="loops cannot be drawn by"):
        SampledLoops(law, b, (0,))
