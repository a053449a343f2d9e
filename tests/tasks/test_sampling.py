"""What holds for samples of every task: shapes, numbers that come from the generator alone, the
functions behind them, and dimensions that are not visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from looplab.tasks import Prompts, Task, make_task
from looplab.tasks.linear import Linear
from looplab.tasks.random_source import FreshNumbers
from tests.tasks.statistics import generator, sample_with_parameters


def visible(task: Task, dims: int) -> slice:
    """The first `dims`; the last, where a task's inputs are padded on the left."""
    return slice(task.dims - dims, None) if task.left_padded else slice(dims)


def hidden(task: Task, dims: int) -> slice:
    """All others."""
    return slice(task.dims - dims) if task.left_padded else slice(dims, None)


@pytest.fixture
def prompts() -> Prompts:
    """Four prompts of three pairs in two dimensions."""
    return Prompts(torch.randn(4, 3, 2, generator=generator()), torch.arange(12.0).view(4, 3))


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        ((4, 3), (4, 3)),
        ((4, 3, 2, 1), (4, 3)),
        ((4, 3, 2), (4,)),
        ((4, 3, 2), (3, 4)),
        ((4, 3, 2), (4, 2)),
        ((4, 3, 2), (1, 3)),
        ((4, 3, 2), (4, 3, 1)),
        ((4, 3, 2), (4, 3, 2)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"prompts need xs \[B, n, d\] and ys \[B, n\]") as error:
        Prompts(torch.zeros(xs), torch.zeros(ys))
    assert str(list(xs)) in str(error.value)
    assert str(list(ys)) in str(error.value)


def test_length_is_the_number_of_prompts(prompts: Prompts) -> None:
    assert len(prompts) == 4


def test_a_slice_keeps_pairs_together(prompts: Prompts) -> None:
    part = prompts[1:3]
    assert len(part) == 2
    assert torch.equal(part.xs, prompts.xs[1:3])
    assert torch.equal(part.ys, prompts.ys[1:3])


def test_moving_moves_both(prompts: Prompts) -> None:
    moved = prompts.to("meta")
    assert moved.xs.is_meta
    assert moved.ys.is_meta
    assert not prompts.xs.is_meta


def test_prompts_are_frozen(prompts: Prompts) -> None:
    with pytest.raises(FrozenInstanceError):
        prompts.xs = torch.zeros(4, 3, 2)  # type: ignore[misc]


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
    "name", ["linear", "sparse_linear", "decision_tree", "relu_network", "halfspaces"]
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
