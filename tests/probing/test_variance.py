"""The sizes of targets of dense linear functions are those of theory, by Monte Carlo: 1 − R² is an
error over them, and the mean of XᵀY's errors over lengths is mostly that of the longest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reloop.probing.targets import find_target
from reloop.tasks import make_task
from tests.tasks.statistics import assert_mean, generator

DIMS, POINTS = 4, 7
# XᵀX is a Wishart matrix A with i degrees of freedom, and E A² = i(i + d + 1) I; w_OLS is w along
# i random directions; the residual is the query's part along the d − i others.
VARIANCE: dict[str, Callable[[int], float]] = {
    "gradient": lambda i: i * (i + DIMS + 1),
    "least_squares": lambda i: min(i, DIMS) / DIMS,
    "residual": lambda i: max(DIMS - i, 0),
    "weights": lambda i: 1,
}


@pytest.mark.parametrize("name", sorted(VARIANCE))
def test_the_variance_of_each_output_at_each_length(name: str) -> None:
    task, target = make_task("linear", DIMS), find_target(name)
    values = target.compute(*task.draw(generator(5), 6000, POINTS), task)
    for row, i in enumerate(target.lengths(POINTS)):
        for column in range(target.outputs(task)):
            if variance := VARIANCE[name](i):
                assert_mean(values[:, row, column], 0.0)
                assert_mean(values[:, row, column].square(), variance)
            else:
                assert values[:, row, column].abs().median() < 1e-5
