"""The fitted law: its gradient, its optimum, and how near it comes to a law that is known; the 24
minima of the published experiment."""

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pandas import DataFrame
from scipy.optimize import approx_fprime, least_squares

from looplab.conf.mistakes import RunError
from looplab.experiments.scaling_law.__main__ import MINIMA, read_csv
from looplab.experiments.scaling_law.law import Law, Problem, fit_law
from tests.experiments.scaling_law.design import (
    counts,
    crossed,
    design,
    noisy,
    published,
    published_law,
    sample_table,
)

TRUTH = published_law()
NOISE = 0.003


def small_table(law: Law, once: float = 1.0, scale: float = 1.0) -> DataFrame:
    """Four widths, three amounts of data and four r, with the law's losses."""
    sizes, data = [1.0, 3.0, 10.0, 40.0], [1.0, 8.0, 60.0]
    table = crossed(sizes, data, [1.0, 2.0, 4.0, 8.0], once)
    scales = {"N_once": scale, "N_rec": scale, "D": scale, "r": 1.0, "loss": 1.0}
    return noisy(table * scales, law)


def plain_log_loss(theta: NDArray[Any], table: DataFrame) -> NDArray[Any]:
    """log L by parameters (E, log A, log B, alpha, beta, phi), one row after another."""
    E, log_a, log_b, alpha, beta, phi = theta
    logs = []
    for once, rec, r, data in zip(table.N_once, table.N_rec, table.r, table.D, strict=True):
        size = math.log(once + r**phi * rec)
        logs.append(
            math.log(E + math.exp(log_a - alpha * size) + math.exp(log_b - beta * math.log(data)))
        )
    return np.array(logs)


def plain_theta(law: Law) -> NDArray[Any]:
    return np.array([law.E, math.log(law.A), math.log(law.B), law.alpha, law.beta, law.phi])


def spread_bound(table: DataFrame) -> float:
    """Cramér and Rao's bound on the standard deviation of phi."""
    columns = approx_fprime(plain_theta(TRUTH), lambda theta: plain_log_loss(theta, table), 1e-6)
    return float(NOISE * np.sqrt(np.linalg.inv(columns.T @ columns)[5, 5]))


@pytest.mark.parametrize("once", [1.0, 0.0])
def test_the_slopes_are_those_of_the_residuals(once: float) -> None:
    problem = Problem(small_table(Law(1.0, 3.0, 2.0, 0.3, 0.4, 0.5), once, 1e7))
    theta = problem.theta(Law(0.9, 3.1, 2.0, 0.31, 0.4, 0.46))
    residuals, slopes = problem.slopes(theta)
    estimate = [
        (problem.slopes(theta + step)[0] - problem.slopes(theta - step)[0]) / 2e-6
        for step in 1e-6 * np.eye(6)
    ]
    np.testing.assert_allclose(slopes.T, estimate, rtol=1e-5, atol=1e-5)
    both = problem.slopes(np.stack([theta, theta + 0.01]))
    np.testing.assert_allclose(both[0][0], residuals)
    np.testing.assert_allclose(both[1][0], slopes)


@pytest.mark.parametrize(
    ("law", "once", "scale"),
    [
        (TRUTH, 4.0, 1e8),  # N and D beyond 1e10
        (Law(0.05, 2.0, 30.0, 0.4, 1.1, 0.8), 0.0, 1e3),  # nothing outside the loop
        (Law(0.3, 4.0, 5.0, 0.7, 0.3, -0.2), 1.0, 10.0),
    ],
)
def test_losses_without_noise_give_the_law_back(law: Law, once: float, scale: float) -> None:
    table = small_table(law, once, scale)
    fit = fit_law(table, {})
    assert fit.law.phi == pytest.approx(law.phi, abs=1e-4)
    assert astuple(fit.law) == pytest.approx(astuple(law), rel=5e-3)
    assert fit.r2 > 1 - 1e-8
    assert fit.huber < 1e-12


@pytest.mark.parametrize(
    "table", [sample_table(TRUTH, NOISE, 3), read_csv(MINIMA)], ids=["design", "minima"]
)
def test_no_other_search_finds_less(table: DataFrame) -> None:
    """Levenberg and Marquardt's method with the same robust loss, from the published law."""

    def residuals(theta: NDArray[Any]) -> NDArray[Any]:
        return (plain_log_loss(theta, table) - np.log(table.loss)) / 1e-3

    theirs = least_squares(
        residuals, plain_theta(TRUTH), loss="huber", x_scale="jac", ftol=1e-12, xtol=1e-12
    )
    fit = fit_law(table, {})
    assert fit.huber * len(table) / 1e-6 <= theirs.cost * (1 + 1e-6)
    assert fit.law.phi == pytest.approx(theirs.x[5], abs=1e-4)


def test_what_a_table_does_not_determine_is_said() -> None:
    table = design()
    five, of_four = table[::24], table[table.r == 4]
    with pytest.raises(RunError, match="has 5 rows, too few for 6 free parameters"):
        fit_law(five, {})
    assert fit_law(five, {"E": 1.5}).r2 > 0.99
    with pytest.raises(RunError, match="one value of r only, which cannot tell phi"):
        fit_law(of_four, {})
    assert fit_law(of_four, {"phi": 0.459}).law.alpha == pytest.approx(TRUTH.alpha, rel=0.01)
    with pytest.raises(RunError, match="one value of loss only, which tells nothing"):
        fit_law(table.assign(loss=2.5), {})


def test_phi_of_ten_draws() -> None:
    """Their mean within .02, spread at most 1.4 times the bound."""
    found = [fit_law(sample_table(TRUTH, NOISE, seed), {}).law.phi for seed in range(10)]
    bound = spread_bound(design())
    assert bound == pytest.approx(0.0125, abs=0.001)
    assert np.mean(found) == pytest.approx(TRUTH.phi, abs=0.02)
    assert np.std(found, ddof=1) <= 1.4 * bound


def test_the_minima_are_the_printed_ones() -> None:
    """Only N is printed: the (fractional) width with as many parameters gives N_once and N_rec, and
    the budget gives D. The law misses them by .0094 nats, which tells that N and D are what its
    authors mean."""
    table = read_csv(MINIMA)
    cells = published()["minima"]["cells"]
    for cell, row in zip(cells, table.to_dict("records"), strict=True):
        block = row["N_rec"] * row["r"] / 16  # 12 d² + 2 d
        model = counts((np.sqrt(1 + 12 * block) - 1) / 12, cell["r"])
        assert model.once + model.rec == pytest.approx(cell["N"] * 1e6)
        expected = (*model[:2], cell["r"], cell["budget"] / model.flops, cell["loss"])
        assert [*row.values()][:5] == pytest.approx(expected)
        assert row["budget"] == cell["budget"]
    missed = published_law().loss(table) - table.loss
    assert np.sqrt((missed**2).mean()) == pytest.approx(0.0094, abs=0.0008)
    assert missed.max() == pytest.approx(0.023, abs=0.002)
