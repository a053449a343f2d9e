"""With fewer visible dims, the hidden ones are zero in x and have no part in y."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from reloop.tasks import Task, make_task
from reloop.tasks.linear import Linear
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import generator
from tests.tasks.visible import hidden, visible

DIMS, VISIBLE = 8, 3


@pytest.mark.parametrize("distinct_prompts", [0, 10])
def test_hidden_inputs_are_zero_and_visible_ones_are_not(name: str, distinct_prompts: int) -> None:
    task = make_task(name, DIMS, distinct_prompts)
    xs = task.sample(generator(), batch=50, points=7, dims=VISIBLE).xs
    assert xs.shape == (50, 7, DIMS)
    assert torch.all(xs[:, :, hidden(task, VISIBLE)] == 0)
    assert torch.all(xs[:, :, visible(task, VISIBLE)] != 0)


def test_every_dim_is_visible_by_default(name: str) -> None:
    task = make_task(name, DIMS)
    by_default = task.sample(generator(), batch=6, points=5)
    all_dims = task.sample(generator(), batch=6, points=5, dims=DIMS)
    assert torch.all(by_default.xs != 0)
    assert torch.equal(by_default.xs, all_dims.xs)
    assert torch.equal(by_default.ys, all_dims.ys)


@pytest.mark.parametrize(
    "name",
    ["linear", "sparse_linear", "decision_tree", "relu_network", "halfspaces"],
)
def test_outputs_are_those_of_the_truncated_inputs(name: str) -> None:
    """What a model sees determines y, but for the function: x is cut before y is made from it."""
    task = make_task(name, DIMS)
    prompts, parameters = sample_with_parameters(task, batch=50, points=7, dims=VISIBLE)
    assert torch.equal(prompts.ys, task.outputs(prompts.xs, parameters))


@pytest.mark.parametrize("name", ["sparse_linear", "decision_tree"])
def test_functions_with_few_inputs_never_ask_for_a_hidden_one(name: str) -> None:
    task = make_task(name, DIMS)
    prompts, parameters = sample_with_parameters(task, batch=200, points=7, dims=VISIBLE)
    altered = prompts.xs.clone()
    altered[:, :, VISIBLE:] = 100 * torch.randn(200, 7, DIMS - VISIBLE, generator=generator(1))
    torch.testing.assert_close(task.outputs(altered, parameters), prompts.ys, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "hide"),
    [
        ("linear", lambda w: torch.cat((w[:, :VISIBLE], 100 + w[:, VISIBLE:]), 1)),
        (
            "relu_network",
            lambda w: (torch.cat((w[0][:, :VISIBLE], 100 + w[0][:, VISIBLE:]), 1), w[1]),
        ),
    ],
)
def test_weights_of_hidden_dims_do_not_matter(name: str, hide: Callable[[Any], Any]) -> None:
    """Dense functions may have weights there: the zeros in x take them out."""
    task = make_task(name, DIMS)
    prompts, parameters = sample_with_parameters(task, batch=20, points=7, dims=VISIBLE)
    torch.testing.assert_close(task.outputs(prompts.xs, hide(parameters)), prompts.ys)


@pytest.mark.parametrize("dims", [-1, 0, DIMS + 1])
def test_dims_outside_the_task_are_refused(name: str, dims: int) -> None:
    with pytest.raises(ValueError, match=rf"dims must lie in 1\.\.{DIMS}, got {dims}"):
        make_task(name, DIMS).sample(generator(), batch=2, points=2, dims=dims)


def test_a_task_can_need_more_than_one_dim() -> None:
    class Wide(Linear):
        min_dims: ClassVar[int] = 3

    task: Task = Wide(dims=DIMS)
    assert task.sample(generator(), batch=2, points=2, dims=3).xs.shape == (2, 2, DIMS)
    with pytest.raises(ValueError, match="dims must lie in 3"):
        task.sample(generator(), batch=2, points=2, dims=2)


def test_noise_knows_how_many_dims_are_visible() -> None:
    """Every hook of a task is told the visible dims, not the task's."""
    seen: list[int] = []

    class Spy(Linear):
        def noise(self, ys: Tensor, random: Any, dims: int) -> Tensor:
            seen.append(dims)
            return ys

        def parameters(self, random: Any, dims: int) -> Tensor:
            seen.append(dims)
            return super().parameters(random, dims)

    Spy(dims=DIMS).sample(generator(), batch=2, points=2, dims=VISIBLE)
    assert seen == [VISIBLE, VISIBLE]
