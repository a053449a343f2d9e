"""`draw` gives the prompts of `sample` and the functions behind them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.tasks import make_task
from reloop.tasks.random_source import FreshNumbers
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import generator
from tests.tasks.visible import hidden


def parts(parameters: Any) -> tuple[Tensor, ...]:
    """A task's parameters as a tuple of tensors."""
    if isinstance(parameters, Tensor):
        return (parameters,)
    return tuple(tensor for part in parameters for tensor in parts(part))


@pytest.mark.parametrize("distinct_prompts", [0, 100])
@pytest.mark.parametrize("dims", [None, 3])
def test_the_prompts_are_those_of_sample_and_the_parameters_theirs(
    name: str, distinct_prompts: int, dims: int | None
) -> None:
    """Bit for bit, in the order of draws too: the generator is left where `sample` leaves it."""
    task = make_task(name, 5, distinct_prompts)
    used, other = generator(3), generator(3)
    prompts, parameters = task.draw(used, 6, 4, dims)
    sampled = task.sample(other, 6, 4, dims)
    assert torch.equal(prompts.xs, sampled.xs)
    assert torch.equal(prompts.ys, sampled.ys)
    assert torch.equal(used.get_state(), other.get_state())
    _, seen = sample_with_parameters(task, 6, 4, dims, seed=3)
    for mine, theirs in zip(parts(parameters), parts(seen), strict=True):
        assert torch.equal(mine, theirs)


def test_prompts_of_given_functions_show_the_visible_dims(name: str) -> None:
    task = make_task(name, 5, settings={"noise_std": 0} if name == "noisy_linear" else {})
    _, parameters = task.draw(generator(), 6, 4)
    prompts = task.prompts(parameters, FreshNumbers(generator(1), 6), points=7, dims=2)
    assert prompts.xs.shape == (6, 7, 5)
    assert torch.all(prompts.xs[:, :, hidden(task, 2)] == 0)
    assert torch.equal(prompts.ys, task.outputs(prompts.xs, parameters))


# Σ|x| and Σ|y| of one seed's prompts, endless and of a finite set, kept from version 0.1.0: a run
# of it goes on with the prompts that it began with.
KEPT = {
    ("decision_tree", 0): (57.1589, 18.3189),
    ("decision_tree", 100): (61.0733, 18.5429),
    ("linear", 0): (60.9399, 26.8636),
    ("linear", 100): (56.9857, 25.6743),
    ("noisy_linear", 0): (60.9399, 34.3596),
    ("noisy_linear", 100): (56.9857, 33.3801),
    ("relu_network", 0): (66.0135, 32.1799),
    ("relu_network", 100): (61.0733, 38.9535),
    ("sparse_linear", 0): (56.6302, 30.6376),
    ("sparse_linear", 100): (61.0733, 33.1052),
}


@pytest.mark.parametrize(("task", "distinct_prompts"), sorted(KEPT))
def test_a_seed_means_the_same_prompts_as_ever(task: str, distinct_prompts: int) -> None:
    prompts, _ = make_task(task, 5, distinct_prompts).draw(generator(7), 6, 4, dims=3)
    sums = [part.double().abs().sum().item() for part in (prompts.xs, prompts.ys)]
    assert sums == pytest.approx(KEPT[task, distinct_prompts], rel=1e-5)
