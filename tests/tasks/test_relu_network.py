"""Two-layer ReLU networks: the formula in NumPy, and the size of their outputs."""

from __future__ import annotations

import numpy as np
import pytest
from torch import Tensor

from reloop.tasks import make_task
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import (
    assert_mean,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
)


def slow_network(xs: Tensor, first: Tensor, second: Tensor) -> np.ndarray:
    """sqrt(2 / hidden) · relu(x W₁) w₂ in float64, unit by unit."""
    x, w1, w2 = (tensor.double().numpy() for tensor in (xs, first, second))
    hidden = w2.shape[1]
    ys = np.zeros(x.shape[:2])
    for unit in range(hidden):
        activation = np.sum(x * w1[:, None, :, unit], axis=2)
        ys += np.where(activation > 0, activation, 0.0) * w2[:, None, unit]
    return ys * np.sqrt(2.0 / hidden)


@pytest.mark.parametrize(("hidden", "dims"), [(100, 20), (1, 20), (7, 4)])
def test_outputs_are_those_of_the_formula(hidden: int, dims: int) -> None:
    task = make_task("relu_network", dims=20, settings={"hidden": hidden})
    prompts, (first, second) = sample_with_parameters(task, batch=6, points=9, dims=dims)
    expected = slow_network(prompts.xs, first, second)
    np.testing.assert_allclose(prompts.ys.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_outputs_leave_their_inputs_alone() -> None:
    """The network works in place on its own numbers only."""
    task = make_task("relu_network", dims=5)
    prompts, parameters = sample_with_parameters(task, batch=3, points=4)
    before = prompts.xs.clone(), *(tensor.clone() for tensor in parameters)
    first, second = task.outputs(prompts.xs, parameters), task.outputs(prompts.xs, parameters)
    assert first.equal(second)
    for old, new in zip(before, (prompts.xs, *parameters), strict=True):
        assert old.equal(new)


def test_weights_are_standard_normal() -> None:
    task = make_task("relu_network", dims=20)
    _, (first, second) = sample_with_parameters(task, batch=300, points=1)
    assert first.shape == (300, 20, 100)
    assert second.shape == (300, 100)
    assert_normal(first)
    assert_normal(second)
    assert_uncorrelated(first[:, 0], second)
    assert_uncorrelated(first[::2], first[1::2])


@pytest.mark.parametrize("dims", [4, 20])
def test_variance_of_y_is_the_number_of_visible_dims(dims: int) -> None:
    task = make_task("relu_network", dims=20)
    assert task.divisor == 20
    prompts = task.sample(generator(), batch=2500, points=6, dims=dims)
    assert_variance_per_prompt(prompts.ys, dims)


def test_variance_does_not_depend_on_the_number_of_hidden_units() -> None:
    task = make_task("relu_network", dims=6, settings={"hidden": 10})
    assert_variance_per_prompt(task.sample(generator(), batch=8000, points=6).ys, 6)


def test_half_of_the_hidden_units_are_active() -> None:
    """The inputs that reach the units are centred: the mean activation share is 1 / 2."""
    task = make_task("relu_network", dims=20)
    prompts, (first, _) = sample_with_parameters(task, batch=800, points=4)
    assert_mean((prompts.xs @ first > 0).double().mean((1, 2)), 1 / 2)
