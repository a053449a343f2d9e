"""The least loss of a budget, by a parabola in log N."""

import math

import numpy as np
import pytest
from pandas import DataFrame, Series, concat

from looplab.experiments.scaling_law.__main__ import MINIMA, read_csv
from looplab.experiments.scaling_law.minima import losses_at_equal_flops, minima, vertex, vertices
from looplab.show.tables import Table
from tests.experiments.scaling_law.design import design


def parabola(sizes: list[float], opens: float = 1.0) -> Series:
    """Losses of 2 at a size of 100 thousand."""
    return Series(2 + opens * 0.1 * np.log(np.array(sizes) / 1e5) ** 2)


@pytest.mark.parametrize("sizes", [[5e4, 8e4, 3e5], [2e4, 9e4, 1.1e5, 9e5]])
def test_the_vertex_of_a_parabola_is_found_between_its_sizes(sizes: list[float]) -> None:
    assert vertex(Series(sizes), parabola(sizes)) == pytest.approx((1e5, 2.0))


@pytest.mark.parametrize(
    ("sizes", "opens"),
    [([5e4, 2e5], 1.0), ([2e5, 4e5, 8e5], 1.0), ([5e4, 1e5, 2e5], -1.0)],
    ids=["two sizes", "all above it", "opens downwards"],
)
def test_there_is_no_vertex_otherwise(sizes: list[float], opens: float) -> None:
    assert np.isnan(vertex(Series(sizes), parabola(sizes, opens))).all()


def test_the_published_runs_have_a_vertex_at_each_budget_and_r() -> None:
    """With the losses of the published law; its minima are one row each, which have none."""
    table = read_csv(MINIMA.with_name("design.csv"))
    found = minima(table)
    assert len(found) == 24
    inner = found.dropna()
    assert len(inner) >= 20
    assert (inner.loss <= inner.measured + 1e-3).all()
    _, shown = vertices(table)
    assert isinstance(shown, Table)
    assert shown.head == ["FLOPs", "r = 1", "r = 2", "r = 4", "r = 8"]
    assert vertices(read_csv(MINIMA)) == []


def test_the_stored_design_is_that_of_the_code() -> None:
    stored = read_csv(MINIMA.with_name("design.csv"))
    for name, values in design().items():
        assert stored[name].to_numpy() == pytest.approx(values.to_numpy(), rel=1e-6), name


def test_the_least_loss_is_of_the_mean_over_seeds_not_of_the_luckiest() -> None:
    one = DataFrame({"N_once": 1.0, "N_rec": [8.0, 16.0], "r": 2, "budget": 1e18, "D": 1.0})
    seeds = concat([one.assign(loss=[2.0, 2.25]), one.assign(loss=[3.0, 2.25])])
    assert minima(seeds).measured.tolist() == [2.25]
    # Runs of other settings are told apart by the names of their folders, whatever these hold.
    assert minima(seeds.assign(run=[1, 2, 3, 4])).measured.tolist() == [2.0]
    names = ["a-seed0-x", "b-seed0-y", "a-seed1-x", "b-seed1-y"]
    assert minima(seeds.assign(run=names)).measured.tolist() == [2.25]


def test_losses_at_equal_flops_stand_beside_each_other() -> None:
    plain = DataFrame({"N_once": 1.0, "N_rec": [8.0, 16.0], "r": 2, "budget": 1e18, "D": 1.0})
    plain["loss"] = [2.0, 2.5]
    changed = plain.assign(loss=[1.9, 1.8], budget=1.04e18)
    _, table = losses_at_equal_flops(plain, changed)
    assert isinstance(table, Table)
    assert table.head == ["FLOPs", "r = 2"]
    assert table.rows == [["1e+18", "0.9000 (1.8000 / 2.0000)"]]
    assert losses_at_equal_flops(plain, changed.assign(r=4)) == []
    assert math.isnan(minima(plain).loss[0])
