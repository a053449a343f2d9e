"""The variances of targets that are known, by Monte Carlo: 1 − R² is an error over them."""

from __future__ import annotations

import pytest
import torch

from probing.targets import TARGETS, find_target
from tasks import Task, make_task
from tasks.linear import Linear
from tests.tasks.statistics import assert_mean, generator

DIMS, POINTS = 4, 7
TASKS = {
    "linear": make_task("linear", DIMS),
    "noisy": make_task("noisy_linear", DIMS, settings={"noise_std": 2.0}),
    "renormalised": make_task(
        "noisy_linear", DIMS, settings={"noise_std": 2.0, "renormalize": True}
    ),
    "silent": make_task("noisy_linear", DIMS, settings={"noise_std": 0.0}),
    "sparse": make_task("sparse_linear", DIMS, settings={"sparsity": 3}),
    "tree": make_task("decision_tree", DIMS),
}
DENSE = {"gradient", "least_squares", "residual", "weights"}
KNOWN = {
    "linear": DENSE,
    "noisy": {"gradient", "weights"},
    "renormalised": {"gradient", "weights"},
    "silent": DENSE,
    "sparse": DENSE | {"support"},
    "tree": set[str](),
}


@pytest.mark.parametrize(("task", "name"), [(t, n) for t in sorted(KNOWN) for n in sorted(TARGETS)])
def test_the_variance_is_that_of_each_output_at_each_length(task: str, name: str) -> None:
    """Or None: unknown, infinite, or of a target that the task does not have."""
    of, target = TASKS[task], find_target(name)
    if name not in KNOWN[task]:
        if name != "support":
            assert all(target.variance(of, i) is None for i in target.lengths(POINTS))
        return
    prompts, parameters = of.draw(generator(5), 6000, POINTS)
    values = target.compute(prompts, parameters, of)
    for row, i in enumerate(target.lengths(POINTS)):
        variance = target.variance(of, i)
        assert variance is not None
        mean = of.divisor / DIMS if name == "support" else 0.0
        if variance == 0:
            assert (values[:, row] - mean).abs().median() < 1e-5
        for column in range(target.outputs(of)):
            if variance:
                assert_mean((values[:, row, column] - mean).square(), variance)


@pytest.mark.parametrize("dims", [3, 20])
def test_the_variance_of_the_gradient_of_dense_functions(dims: int) -> None:
    target, task = find_target("gradient"), make_task("linear", dims)
    assert [target.variance(task, i) for i in range(1, 42)] == [
        i * (i + dims + 1) for i in range(1, 42)
    ]


def test_the_residual_of_functions_that_are_known_has_none() -> None:
    target, task = find_target("residual"), TASKS["linear"]
    assert [target.variance(task, i) for i in range(1, 7)] == [3, 2, 1, 0, 0, 0]


def test_nothing_is_claimed_of_a_users_own_linear_functions() -> None:
    class Long(Linear):
        def parameters(self, draws: object, dims: int) -> torch.Tensor:
            return 10 * super().parameters(draws, dims)  # type: ignore[arg-type]

    task: Task = Long(dims=DIMS)
    names = ("gradient", "least_squares", "residual", "weights")
    assert all(find_target(name).variance(task, 2) is None for name in names)
