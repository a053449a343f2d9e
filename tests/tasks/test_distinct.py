"""Finitely many prompts, each with the same numbers whenever it is drawn, or finitely many
functions with endless prompts; and the hash behind numbered prompts."""

import pytest
import torch
from scipy.special import ndtri
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.tasks import Prompts, Task, make_task
from looplab.tasks.random_source import NumberedPrompts
from tests.tasks.conftest import assert_frequencies, assert_normal, assert_uniform, generator
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


def test_fewer_points_or_dims_are_a_part_of_more(name: str) -> None:
    short, long = (sample(name, 1000, 20, seed=5, points=points) for points in (3, 9))
    assert torch.equal(short.xs, long.xs[:, :3])
    torch.testing.assert_close(short.ys, long.ys[:, :3], rtol=1e-5, atol=1e-5)
    task = make_task(name, DIMS, distinct_prompts=50)
    full = task.sample(generator(), 20, POINTS)
    for dims in (1, 2):
        some, seen = task.sample(generator(), 20, POINTS, dims), visible(task, dims)
        assert torch.equal(some.xs[:, :, seen], full.xs[:, :, seen])


@pytest.mark.parametrize("name", ["noisy_linear", "halfspaces"])
def test_prompts_are_drawn_uniformly_from_a_world_of_any_size(name: str) -> None:
    """A larger world holds the smaller one. 10^12 prompts could not be stored; two of 400 draws
    coincide once in ten million times."""
    few, _, _ = by_prompt([sample(name, 3, 60, seed=0)])
    many, which, _ = by_prompt([sample(name, 6, 4000, seed=1)])
    assert (len(few), len(many)) == (3, 6)
    assert torch.all((few[:, None] == many).all(2).any(1))
    assert_frequencies(which[:, None] == torch.arange(6), 1 / 6)
    assert len(sample(name, 10**12, 400, seed=0).xs.flatten(1).unique(dim=0)) == 400


def finite(functions: int, dims: int = 4) -> Task:
    return make_task("linear", dims, distinct_functions=functions)


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


def test_a_larger_world_holds_the_smaller_one_and_seeds_share_it() -> None:
    """And fewer visible dims leave a function as it is."""
    assert torch.equal(finite(50).functions()[:7], finite(7).functions())
    one, other = (finite(2).draw(generator(seed), 50, 2)[1] for seed in (0, 1))
    assert torch.equal(one.unique(dim=0), other.unique(dim=0))
    (some,), (full,) = (finite(1).draw(generator(), 1, 3, dims)[1] for dims in (2, 4))
    assert torch.equal(some[:2], full[:2])


def test_functions_are_those_of_the_endless_set_and_no_others() -> None:
    """Neither those of numbered prompts nor those of evaluation."""
    weights = finite(8000, dims=3).functions()
    assert_normal(weights)
    _, of_prompts = make_task("linear", 3, distinct_prompts=10).draw(generator(), 40, 2)
    asked = finite(8000, dims=3).for_evaluation()
    assert asked.distinct_functions == 0
    for others in (of_prompts, asked.draw(generator(), 20, 2)[1]):
        assert not torch.isin(others, weights).any()


def test_both_limits_together_and_tables_are_refused() -> None:
    for words in ("task=linear task.distinct_prompts=2", "task=tables"):
        with pytest.raises(ConfigError, match=r"task.distinct_functions has no meaning with"):
            Config.of(*words.split(), "task.distinct_functions=2")


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


def test_numbers_are_those_of_the_slow_hash() -> None:
    """Pinned: other numbers here would change the prompts of every run with `distinct_prompts`."""
    indices, family = [0, 1, 12345, 10**12 - 1, 2**62], 0x5EED
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
