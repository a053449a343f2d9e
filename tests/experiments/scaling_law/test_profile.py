"""Profiles: where they end, held against fits with the parameter held there, and the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from looplab.experiments.scaling_law.fit import fit_law
from looplab.experiments.scaling_law.problem import NAMES, Law
from looplab.experiments.scaling_law.profile import (
    LEAST_NOISE,
    Profiles,
    allowance,
    noise_of,
    profiles,
)
from looplab.experiments.scaling_law.published import minima
from looplab.experiments.scaling_law.table import ScalingTable
from tests.experiments.scaling_law.design import design, published_law, sample_table

TRUTH = Law(0.3, 4.0, 5.0, 0.7, 0.3, 0.5)


def table_of(data: NDArray[np.float64], noise: float = 0.0, seed: int = 0) -> ScalingTable:
    """Four sizes and four r on each amount of data, losses of a known law."""
    axes = np.meshgrid([100.0, 300.0, 1000.0, 4000.0], data, [1.0, 2.0, 4.0, 8.0])
    size, amount, r = (axis.ravel() for axis in axes)
    table = ScalingTable(size, 16 * size / r, r, amount, size)
    normal = np.random.default_rng(seed).normal(0, noise, len(table))
    return replace(table, loss=TRUTH.loss(table) * np.exp(normal))


TWO = np.array([100.0, 6000.0])


def excess(table: ScalingTable, found: Profiles, name: str, value: float) -> float:
    """How far above the least value the best law with the parameter held there is, of what the
    profile allows."""
    rows, free = len(table), len(NAMES)
    least, there = (fit_law(table, held).huber for held in ({}, {name: value}))
    return (there - least) * rows / 1e-6 / allowance(found.noise, rows, free)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (sample_table(published_law(), 0.003, 1), ("E", "alpha", "beta", "phi")),
        pytest.param(minima(), ("E", "phi"), marks=pytest.mark.slow),
    ],
    ids=["design", "minima"],
)
def test_an_interval_ends_where_no_other_search_finds_less(
    table: ScalingTable, names: Sequence[str]
) -> None:
    """Each fit anew from the whole grid of starts."""
    found = profiles(table, fit_law(table))
    for name in names:
        for end, side in ((found.low[name], -1), (found.high[name], 1)):
            if end == 0:  # E: even without it the law is within
                assert excess(table, found, name, 1e-9) < 1
                continue
            width = found.high[name] - found.low[name]
            assert 1 <= excess(table, found, name, end) < 1.4
            assert excess(table, found, name, end - 0.1 * side * width) < 1
    assert found.low_at_edge == found.high_at_edge == ()


def test_a_and_b_are_moved_themselves() -> None:
    """As the exponents drag them: the logarithm of A goes with alpha by the logarithm of N."""
    table = sample_table(published_law(), 0.003, 1)
    fit = fit_law(table)
    found = profiles(table, fit)
    for term, exponent, size in (("A", "alpha", table.parameters), ("B", "beta", table.D)):
        assert found.low[term] < getattr(fit.law, term) < found.high[term]
        apart = math.log(found.high[term] / found.low[term])
        dragged = (found.high[exponent] - found.low[exponent]) * np.log(size).mean()
        assert 0.5 < apart / dragged < 1.5


def test_a_flat_valley_is_seen_over_its_length() -> None:
    """Two values of D: from no E at all to one for which D hardly matters beyond the first."""
    for noise in (0.0, 0.003):
        table = table_of(TWO, noise)
        found = profiles(table, fit_law(table))
        assert found.low["E"] == 0
        assert 0.6 < found.high["E"] < 1.01 * table.loss.min()
        assert found.low["beta"] < 0.22
        assert found.high["beta"] == 6
        assert "beta" in found.high_at_edge
        assert found.high["phi"] - found.low["phi"] < 0.25


def test_what_is_held_has_no_profile() -> None:
    table = table_of(TWO, 0.003)
    found = profiles(table, fit_law(table, {"E": 0.3}))
    assert set(found.low) == set(found.high) == {"A", "B", "alpha", "beta", "phi"}
    assert found.low["beta"] < TRUTH.beta < found.high["beta"] < 0.32


def test_as_many_rows_as_parameters_tell_no_noise() -> None:
    rows = np.arange(0, 116, 21)
    parts = (design().N_once, design().N_rec, design().r, design().D, design().loss)
    once, rec, r, data, loss = (each[rows] for each in parts)
    table = ScalingTable(once, rec, r, data, loss)
    assert len(table) == 6
    found = profiles(table, fit_law(table))
    assert found.low["E"] == 0
    for name in ("alpha", "beta", "phi"):
        assert name in found.low_at_edge
        assert name in found.high_at_edge


def test_the_allowance_is_of_least_squares_or_of_absolute_deviations() -> None:
    """Noise far below delta = .001: F's test, t² s² / 2. Far above: the variance is pi / 2 times
    that, and Huber's loss grows by delta times the deviation."""
    square = float(t.ppf(0.95, 24 - 6)) ** 2
    assert allowance(1e-4, 24, 6) == pytest.approx(square * 0.1**2 / 2)
    assert allowance(1.0, 24, 6) == pytest.approx(square * math.sqrt(math.pi / 2) * 1000 / 2, 1e-3)
    assert math.isinf(allowance(1e-3, 6, 6))
    # A t variable with few degrees of freedom is further out.
    assert allowance(1e-3, 8, 6) > 2 * allowance(1e-3, 100, 6)


def test_noise_is_that_of_most_rows() -> None:
    residuals = np.random.default_rng(0).normal(0, 0.003, 4000)
    assert noise_of(residuals, 6) == pytest.approx(0.003, rel=0.05)
    residuals[:100] = 0.4  # runs that failed
    assert noise_of(residuals, 6) == pytest.approx(0.003, rel=0.1)
    few = np.array([0, 0, 0, 0, 0, 0, 0.003, 0.003])  # six parameters meet six rows
    assert noise_of(few, 6) > 0.003
    assert noise_of(np.zeros(24), 6) == LEAST_NOISE


def test_exact_losses_have_narrow_intervals_that_hold_the_law() -> None:
    table = design()
    found = profiles(table, fit_law(table))
    assert found.noise == LEAST_NOISE
    for name in NAMES:
        assert found.low[name] < getattr(published_law(), name) < found.high[name]
    assert found.high["phi"] - found.low["phi"] < 5e-4
