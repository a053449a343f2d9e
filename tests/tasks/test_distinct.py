"""Finitely many prompts, each with the same numbers whenever it is drawn, or finitely many
functions with endless prompts; and the hash behind numbered prompts."""

from __future__ import annotations

import pytest
import torch
from scipy.special import ndtri
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.tasks import Prompts, Task, make_task
from looplab.tasks.random_source import NumberedPrompts
from tests.tasks.statistics import (
    assert_frequencies,
    assert_normal,
    assert_uncorrelated,
    assert_uniform,
    generator,
)
from tests.tasks.test_sampling import visible

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


def finite(functions: int, name: str = "linear", dims: int = 4) -> Task:
    return make_task(name, dims, distinct_functions=functions)


def test_there_are_n_functions_each_as_likely_and_no_prompt_comes_twice() -> None:
    task = finite(5)
    prompts, weights = task.draw(generator(), batch=4000, points=3)
    different, which = torch.unique(weights, dim=0, return_inverse=True)
    assert len(different) == 5
    assert_frequencies(which[:, None] == torch.arange(5), 1 / 5)
    assert len(prompts.xs.flatten(1).unique(dim=0)) == 4000
    assert_normal(prompts.xs)
    listed = task.functions()
    assert {tuple(row) for row in listed.tolist()} == {tuple(row) for row in different.tolist()}


def test_outputs_are_those_of_the_functions_also_of_nonlinear_ones() -> None:
    task = finite(3, "relu_network")
    prompts, parameters = task.draw(generator(), batch=20, points=6)
    torch.testing.assert_close(prompts.ys, task.outputs(prompts.xs, parameters))


def test_a_larger_world_holds_the_smaller_one_and_seeds_share_it() -> None:
    assert torch.equal(finite(50).functions()[:7], finite(7).functions())
    one, other = (finite(2).draw(generator(seed), 50, 2)[1] for seed in (0, 1))
    assert torch.equal(one.unique(dim=0), other.unique(dim=0))


def test_functions_are_those_of_the_endless_set_and_not_of_numbered_prompts() -> None:
    weights = finite(8000, dims=3).functions()
    assert_normal(weights)
    _, of_prompts = make_task("linear", 3, distinct_prompts=10).draw(generator(), 40, 2)
    assert not torch.isin(of_prompts, weights).any()


def test_fewer_visible_dims_leave_the_function_as_it_is() -> None:
    task = finite(1)
    (some,), (full,) = (task.draw(generator(), 1, 3, dims)[1] for dims in (2, 4))
    assert torch.equal(some[:2], full[:2])


def test_evaluation_has_new_functions() -> None:
    task = finite(3).for_evaluation()
    assert task.distinct_functions == 0
    _, weights = task.draw(generator(), 20, 2)
    assert not torch.isin(weights, finite(3).functions()).any()


def test_both_limits_together_and_tables_are_refused() -> None:
    with pytest.raises(ConfigError, match="has no meaning with distinct_prompts"):
        make_task("linear", 3, distinct_prompts=2, distinct_functions=2)
    for words, message in (
        (("task=linear", "task.distinct_prompts=2"), "has no meaning with task.distinct_prompts"),
        (("task=tables",), "has no meaning with task=tables"),
    ):
        with pytest.raises(ConfigError, match=message):
            Config.of(*words, "task.distinct_functions=2")


def test_posterior_means_are_left_to_the_endless_set() -> None:
    assert finite(2).no_posterior_mean()
    config = Config.of("task=noisy_linear", "task.distinct_functions=2")
    assert config.training.targets == "outputs"


BITS = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def mix(bits: int) -> int:
    """SplitMix64's finaliser in whole numbers without end, cut to 64 bits."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % BITS
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % BITS
    return bits ^ (bits >> 31)


def slow_bits(index: int, family: int, call: int, counter: int) -> int:
    """64 bits for number `counter` (from 1) of call `call` (from 1) of prompt `index`."""
    prompt = mix((mix(family) + index * GOLDEN) % BITS)
    stream = mix((prompt + call * GOLDEN) % BITS)
    return mix((stream + counter * GOLDEN) % BITS)


def draws(prompts: int, family: int = 1, first: int = 0) -> NumberedPrompts:
    """RandomSource for the prompts first, first + 1, …"""
    return NumberedPrompts(torch.arange(first, first + prompts), family)


def test_the_slow_hash_is_splitmix64() -> None:
    """The first number that the published generator gives for seed 0."""
    assert mix(GOLDEN) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("family", [0, 1, 0x5EED])
def test_numbers_are_those_of_the_slow_hash(family: int) -> None:
    """Pinned: other numbers here would change the prompts of every run with `distinct_prompts`."""
    indices = [0, 1, 12345, 10**12 - 1, 2**62]
    numbered = NumberedPrompts(torch.tensor(indices), family)
    uniform, normal = numbered.uniform(3), numbered.normal(2, 2)
    for row, index in enumerate(indices):
        for i in range(3):
            expected = (slow_bits(index, family, 1, i + 1) >> 40) / 2**24
            assert uniform[row, i].item() == expected
        for i in range(4):
            centre = ((slow_bits(index, family, 2, i + 1) >> 11) + 0.5) / 2**53
            actual = normal[row].flatten()[i].item()
            assert actual == pytest.approx(float(ndtri(centre)), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_shapes_and_types(kind: str) -> None:
    for shape in ((), (3,), (2, 5), (0,)):
        numbers: Tensor = getattr(draws(4), kind)(*shape)
        assert numbers.shape == (4, *shape)
        assert numbers.dtype == torch.float32


def test_distributions() -> None:
    # Rows are prompts, columns counters; 64 of either show up what few of one would hide.
    numbered = draws(2000)
    assert_normal(numbered.normal(64))
    assert_uniform(numbered.uniform(64))
    assert_normal(draws(64).normal(2000))
    assert_uniform(draws(64).uniform(2000))
    assert_normal(draws(20_000, first=10**12).normal())


@pytest.mark.parametrize("bits", [0, -1, 2**63 - 1, -(2**63)])
def test_no_bits_give_a_number_out_of_range(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All zeros and all ones, which no sample is large enough to hold."""
    numbered = draws(1)
    monkeypatch.setattr(numbered, "_bits", lambda shape: torch.full((1, *shape), bits))
    assert 0 <= numbered.uniform(1).item() < 1
    assert abs(numbered.normal(1).item()) < 9


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_neighbours_are_independent(kind: str) -> None:
    """Neighbouring counters, prompts, calls and families; squares too, for what a sign hides."""
    numbered = draws(401)
    one, other = (getattr(numbered, kind)(301) for _ in range(2))
    family = getattr(draws(401, family=2), kind)(301)
    pairs = [
        (one[:, :-1], one[:, 1:]),
        (one[:-1], one[1:]),
        (one, other),
        (one[:, 1:], other[:, :-1]),
        (one[1:], other[:-1]),
        (one[1:, :-1], one[:-1, 1:]),
        (one, family),
        (one[1:], family[:-1]),
    ]
    for left, right in pairs:
        assert_uncorrelated(left, right)
        assert_uncorrelated((left - one.mean()).square(), (right - one.mean()).square())


def test_no_number_comes_twice() -> None:
    """Streams of different prompts and calls never run into each other."""
    numbered = draws(300)
    numbers = torch.stack([numbered.normal(100).double() for _ in range(2)]).flatten()
    # 60,000 float32 numbers: some coincide by rounding, whole runs would not.
    assert len(numbers.unique()) > 0.99 * len(numbers)
    runs = numbers.view(-1, 4)
    assert len(runs.unique(dim=0)) == len(runs)


def test_numbers_belong_to_the_prompt_and_not_to_its_place() -> None:
    index = torch.tensor([5, 3, 5, 8])
    numbers = NumberedPrompts(index, 1).normal(6)
    assert torch.equal(numbers[0], numbers[2])
    assert torch.equal(numbers, draws(9).normal(6)[index])
    assert len(numbers.unique(dim=0)) == 3


def test_a_shorter_draw_is_the_beginning_of_a_longer_one() -> None:
    assert torch.equal(draws(5).normal(4), draws(5).normal(9)[:, :4])
    assert torch.equal(draws(5).normal(2, 3), draws(5).normal(7, 3)[:, :2])
    # Also what follows it: the next call does not depend on how much this one drew.
    short, long = draws(5), draws(5)
    short.uniform(2), long.uniform(50)
    assert torch.equal(short.uniform(3), long.uniform(3))
