"""Intervals of a fitted law: what is resampled, and whether they hold what they should."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reloop.conf.mistakes import RunError
from reloop.experiments.scaling_law.bootstrap import Intervals, intervals, percentiles
from reloop.experiments.scaling_law.fit import fit_law
from reloop.experiments.scaling_law.published import published_law, sample_table
from reloop.experiments.scaling_law.table import ScalingTable

TRUTH = published_law()
TABLE = sample_table(TRUTH, 0.003, 0)


def taken(table: ScalingTable, rows: NDArray[Any]) -> ScalingTable:
    parts = (table.N_once, table.N_rec, table.r, table.D, table.loss)
    once, rec, r, data, loss = (each[rows] for each in parts)
    return ScalingTable(once, rec, r, data, loss)


def test_an_interval_is_the_percentiles_of_resampled_fits() -> None:
    fit = fit_law(TABLE)
    found = intervals(TABLE, fit, np.arange(116), 20, seed=5)
    times = np.random.default_rng(5).multinomial(116, np.full(116, 1 / 116), size=20)
    # Rows written out as often as they were drawn, each fit from the whole grid of starts.
    phis = [fit_law(taken(TABLE, np.repeat(np.arange(116), each))).law.phi for each in times]
    assert found.low["phi"] == pytest.approx(np.percentile(phis, 5), abs=1e-4)
    assert found.high["phi"] == pytest.approx(np.percentile(phis, 95), abs=1e-4)
    assert found.used == 20
    for name in ("E", "A", "B", "alpha", "beta", "phi"):
        assert found.low[name] < getattr(fit.law, name) < found.high[name]
    assert intervals(TABLE, fit, np.arange(116), 20, seed=6).low != found.low


def test_rows_of_a_cluster_stay_together() -> None:
    """Two copies of every row, a cluster each pair: as if there were one of each."""
    fit = fit_law(TABLE)
    single = intervals(TABLE, fit, np.arange(116), 20, seed=1)
    doubled = taken(TABLE, np.repeat(np.arange(116), 2))
    double = intervals(doubled, fit, np.repeat(np.arange(116), 2), 20, seed=1)
    assert double.low == pytest.approx(single.low, rel=1e-3)
    assert double.high == pytest.approx(single.high, rel=1e-3)
    apart = intervals(doubled, fit, np.arange(232), 20, seed=1)
    assert apart.high["phi"] - apart.low["phi"] < double.high["phi"] - double.low["phi"]


def test_what_is_held_stays_held() -> None:
    fit = fit_law(TABLE, {"E": 1.5})
    found = intervals(TABLE, fit, np.arange(116), 20, seed=0)
    assert found.low["E"] == found.high["E"] == pytest.approx(1.5)
    free = intervals(TABLE, fit_law(TABLE), np.arange(116), 20, seed=0)
    assert found.high["alpha"] - found.low["alpha"] < free.high["alpha"] - free.low["alpha"]


def test_a_percentile_at_the_search_s_edge_is_named() -> None:
    """Of 21 resamples the 95th percentile is the second highest, of 22 between that and the
    third."""

    def of(*phis: float) -> Intervals:
        return percentiles([astuple(replace(TRUTH, phi=phi)) for phi in phis], ["phi"])

    found = of(*[4.0] * 2, *[0.5] * 19)
    assert found.high["phi"] == 4
    assert (found.low_at_edge, found.high_at_edge) == ((), ("phi",))
    # Between 0.5 and the edge: a number that no resample came to.
    between = of(*[4.0] * 2, *[0.5] * 20)
    assert 0.5 < between.high["phi"] < 4
    assert between.high_at_edge == ("phi",)
    low = of(*[-3.0] * 2, *[0.5] * 19)
    assert (low.low_at_edge, low.high_at_edge) == (("phi",), ())
    # One of 21 is beyond the percentile.
    assert of(4.0, *[0.5] * 20).high_at_edge == ()


def test_resamples_that_tell_nothing_are_left_out_or_refused() -> None:
    few = taken(TABLE, (TABLE.r == 1) | (TABLE.r == 4))
    fit, clusters = fit_law(few), (few.r == 4).astype(np.intp)
    # Both of two clusters are drawn in half of the resamples, here in nine.
    with pytest.raises(RunError, match="only 9 of 20 resamples of the 2 clusters can be fitted"):
        intervals(few, fit, clusters, 20, seed=0)
    four = TABLE.groups(["r"])
    found = intervals(TABLE, fit_law(TABLE), four, 200, seed=0)
    assert 190 <= found.used < 200  # all of one r: once in 64 resamples
    with pytest.raises(RunError, match="one cluster only"):
        intervals(TABLE, fit_law(TABLE), np.zeros(116, dtype=np.intp), 20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [(), ("r", "budget")], ids=["runs", "cells"])
def test_intervals_hold_the_truth_in_nine_of_ten_draws(columns: tuple[str, ...]) -> None:
    held = 0
    for seed in range(50):
        table = sample_table(TRUTH, 0.003, 1000 + seed)
        found = intervals(table, fit_law(table), table.groups(columns), 200, seed)
        held += found.low["phi"] <= TRUTH.phi <= found.high["phi"]
    # 45 expected, standard deviation 2.1.
    assert 41 <= held <= 49
