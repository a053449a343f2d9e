"""The hash behind numbered prompts: its numbers, their distribution and their independence."""

from __future__ import annotations

import pytest
import torch
from scipy.special import ndtri
from torch import Tensor

from reloop.tasks.random_source import NumberedPrompts
from tests.tasks.statistics import assert_normal, assert_uncorrelated, assert_uniform

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
