"""What holds for samples of every task: shapes, and numbers that come from the generator alone."""

from __future__ import annotations

import pytest
import torch

from reloop.tasks import Prompts, make_task
from tests.tasks.statistics import generator


@pytest.mark.parametrize("distinct_prompts", [0, 100])
@pytest.mark.parametrize(("batch", "points", "dims"), [(1, 1, 1), (5, 3, 2), (2, 11, 4)])
def test_shapes_and_types(
    name: str, distinct_prompts: int, batch: int, points: int, dims: int
) -> None:
    prompts = make_task(name, dims, distinct_prompts).sample(generator(), batch, points)
    assert prompts.xs.shape == (batch, points, dims)
    assert prompts.ys.shape == (batch, points)
    assert prompts.xs.dtype == prompts.ys.dtype == torch.float32
    assert prompts.xs.device == prompts.ys.device == torch.device("cpu")
    assert torch.isfinite(prompts.xs).all()
    assert torch.isfinite(prompts.ys).all()


@pytest.mark.parametrize("distinct_prompts", [0, 10**6])
def test_the_same_seed_gives_the_same_prompts(name: str, distinct_prompts: int) -> None:
    first, again = (
        make_task(name, 5, distinct_prompts).sample(generator(3), batch=4, points=6)
        for _ in range(2)
    )
    assert torch.equal(first.xs, again.xs)
    assert torch.equal(first.ys, again.ys)


@pytest.mark.parametrize("distinct_prompts", [0, 10**6])
def test_another_seed_gives_other_prompts(name: str, distinct_prompts: int) -> None:
    task = make_task(name, 5, distinct_prompts)
    one, other = (task.sample(generator(seed), batch=4, points=6) for seed in (3, 4))
    assert not torch.any(one.xs == other.xs)
    assert not torch.equal(one.ys, other.ys)


@pytest.mark.parametrize("distinct_prompts", [0, 10**6])
def test_a_generator_goes_on(name: str, distinct_prompts: int) -> None:
    task, source = make_task(name, 5, distinct_prompts), generator()
    one, other = (task.sample(source, batch=4, points=6) for _ in range(2))
    assert not torch.any(one.xs == other.xs)


@pytest.mark.parametrize("distinct_prompts", [0, 10])
def test_the_global_generator_is_neither_read_nor_moved(name: str, distinct_prompts: int) -> None:
    task = make_task(name, 5, distinct_prompts)
    samples: list[Prompts] = []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            state = torch.get_rng_state()
            samples.append(task.sample(generator(), batch=4, points=6))
            assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(samples[0].xs, samples[1].xs)
    assert torch.equal(samples[0].ys, samples[1].ys)


def test_prompts_of_a_batch_differ(name: str) -> None:
    task = make_task(name, 5)
    prompts = task.sample(generator(), batch=100, points=6)
    assert len(prompts.xs.flatten(1).unique(dim=0)) == 100
    different = len(prompts.ys.unique(dim=0))
    assert different > 2**6 / 2 if task.classes else different == 100


def test_an_empty_batch_is_no_special_case(name: str) -> None:
    prompts = make_task(name, 5).sample(generator(), batch=0, points=6)
    assert prompts.xs.shape == (0, 6, 5)
    assert len(prompts) == 0
