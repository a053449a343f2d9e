"""`distinct_prompts` = N: prompt j has the same numbers whenever and wherever it is drawn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reloop.tasks import Prompts, make_task
from tests.tasks.statistics import assert_frequencies, assert_normal, generator
from tests.tasks.visible import visible

DIMS, POINTS = 4, 5


def sample(
    name: str, distinct_prompts: int, batch: int, seed: int, points: int = POINTS
) -> Prompts:
    """A batch with N distinct prompts."""
    return make_task(name, DIMS, distinct_prompts).sample(generator(seed), batch, points)


def by_prompt(batches: list[Prompts]) -> tuple[Tensor, Tensor, Tensor]:
    """The different inputs among all batches, which of them each prompt has, and its outputs."""
    xs = torch.cat([prompts.xs for prompts in batches])
    different, which = torch.unique(xs.flatten(1), dim=0, return_inverse=True)
    return different, which, torch.cat([prompts.ys for prompts in batches])


def test_there_are_exactly_n_prompts_in_the_world(name: str) -> None:
    """7 prompts in 180 draws: none is missed, but with a probability of 7 · (6 / 7)^180 < 1e-11."""
    batches = [sample(name, 7, batch, seed) for seed, batch in enumerate((100, 50, 29, 1))]
    different, which, ys = by_prompt(batches)
    assert len(different) == 7
    for prompt in range(7):
        same = ys[which == prompt]
        # Equal but for the order of sums, which may depend on the size of the batch.
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-5, atol=1e-5)
    if not make_task(name, DIMS).classes:  # few labels may well be alike
        assert len(ys.mul(1e3).round().unique(dim=0)) >= 7, "two prompts share their outputs"


def test_fewer_points_are_the_beginning_of_more(name: str) -> None:
    short, long = (sample(name, 1000, 20, seed=5, points=points) for points in (3, 9))
    assert torch.equal(short.xs, long.xs[:, :3])
    torch.testing.assert_close(short.ys, long.ys[:, :3], rtol=1e-5, atol=1e-5)


def test_a_larger_world_holds_the_smaller_one(name: str) -> None:
    """Prompt j does not depend on how many others there are."""
    few, _, _ = by_prompt([sample(name, 3, 60, seed=0)])
    many, _, _ = by_prompt([sample(name, 6, 150, seed=1)])
    assert len(few) == 3
    assert len(many) == 6
    assert torch.all((few[:, None] == many).all(2).any(1))


def test_one_prompt(name: str) -> None:
    one, other = (sample(name, 1, 8, seed) for seed in (0, 1))
    assert torch.equal(one.xs, other.xs)
    assert torch.equal(one.xs, one.xs[:1].expand(8, -1, -1))


def test_prompts_are_drawn_uniformly(name: str) -> None:
    different, which, _ = by_prompt([sample(name, 5, 4000, seed=0, points=1)])
    assert_frequencies(which[:, None] == torch.arange(len(different)), 1 / 5)


def test_a_world_without_end_costs_nothing(name: str) -> None:
    """10^12 prompts could not be stored; two of 400 draws coincide once in ten million times."""
    prompts = sample(name, 10**12, 400, seed=0)
    assert len(prompts.xs.flatten(1).unique(dim=0)) == 400
    if not make_task(name, DIMS).classes:
        assert len(prompts.ys.unique(dim=0)) == 400


def test_numbered_inputs_are_standard_normal() -> None:
    """With a world so large that no prompt comes twice."""
    assert_normal(sample("linear", 10**12, 8000, seed=0, points=4).xs)


def test_noise_belongs_to_the_prompt() -> None:
    """The noise, too, is the same at every visit, and it is there."""
    noisy = [sample("noisy_linear", 2, 40, seed) for seed in (0, 1)]
    clean = [sample("linear", 2, 40, seed) for seed in (0, 1)]
    for one, other in zip(noisy, clean, strict=True):
        assert torch.equal(one.xs, other.xs)
        assert not torch.any(one.ys == other.ys)
    different, which, _ = by_prompt(clean)
    noise = torch.cat([one.ys - other.ys for one, other in zip(noisy, clean, strict=True)])
    assert len(different) == 2
    first, second = noise[which == 0], noise[which == 1]
    torch.testing.assert_close(first, first[:1].expand_as(first), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(second, second[:1].expand_as(second), rtol=1e-5, atol=1e-5)
    assert not torch.any(torch.isclose(first[0], second[0]))


@pytest.mark.parametrize("dims", [1, 2])
def test_visible_dims_leave_the_visible_inputs_as_they_are(name: str, dims: int) -> None:
    task = make_task(name, DIMS, distinct_prompts=50)
    some, full = (task.sample(generator(), 20, POINTS, shown) for shown in (dims, DIMS))
    seen = visible(task, dims)
    assert torch.equal(some.xs[:, :, seen], full.xs[:, :, seen])
