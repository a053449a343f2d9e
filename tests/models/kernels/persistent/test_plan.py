"""The plan's counts against counts made another way, and the limits of a multiprocessor."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reloop.models.kernels.persistent.emulation import collect, divide
from reloop.models.kernels.persistent.plan import REGISTER_LIMIT, SHARED_LIMIT, Plan

LENGTHS = [1, 8, 23, 81, 199, 201, 208]
DIVISIONS = [(1, 1), (1, 2), (1, 4), (2, 1), (4, 1), (2, 2)]


def token_numbers(plan: Plan) -> Tensor:
    """The token in each column of each CTA that divides tokens, [tokens, own]; padding is 0."""
    numbers = torch.arange(1.0, plan.length + 1).view(1, -1, 1)
    return divide(numbers, plan).view(plan.tokens, plan.own).long()


@pytest.mark.parametrize("length", [81, 201])
def test_the_papers_lengths_fit_a_multiprocessor(length: int) -> None:
    plan = Plan(length)
    assert plan.why_not() is None
    assert sum(plan.shared_memory().values()) <= SHARED_LIMIT == 232_448
    assert sum(plan.registers().values()) <= REGISTER_LIMIT
    # Two warpgroups that multiply, and one that loads, at 24 registers a thread.
    assert 256 * REGISTER_LIMIT + 128 * 24 <= 65_536


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (Plan(81, 96), "the width must be a multiple of 64, got 96"),
        (Plan(81, 256, 2), "heads must be 16, 32, 64 wide, got 256 / 2"),
        (Plan(201, tokens=1), "360 registers a thread, of 240"),
        (Plan(601), "a CTA has at most 256 columns, got 304"),
        (Plan(225), "233,472 bytes of shared memory, of 232,448"),
    ],
)
def test_other_shapes_get_a_reason(plan: Plan, reason: str) -> None:
    assert plan.why_not() == reason


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("features", "tokens"), DIVISIONS)
def test_every_token_is_in_one_cta_alone(length: int, features: int, tokens: int) -> None:
    plan = Plan(length, features=features, tokens=tokens)
    columns = token_numbers(plan)
    assert columns.flatten().sort().values[-length:].tolist() == list(range(1, length + 1))
    assert (columns > 0).sum() == length
    assert plan.own % 8 == 0
    stream = torch.randn(3, length, 64)
    assert torch.equal(collect(divide(stream, plan), 3, plan), stream)


@pytest.mark.parametrize("length", [81, 201])
@pytest.mark.parametrize(("features", "tokens"), DIVISIONS)
def test_products_are_those_of_the_block_with_padding(
    length: int, features: int, tokens: int
) -> None:
    """12 D² weights a token; with padding, N columns in each of the CTAs."""
    plan = Plan(length, features=features, tokens=tokens)
    multiplied = sum(p.instructions * 64 * 16 * plan.columns for p in plan.products())
    assert multiplied * plan.ctas == 12 * 256**2 * plan.own * tokens
    assert length <= plan.own * tokens < length + 8 * tokens


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("features", "tokens"), DIVISIONS)
def test_attention_is_counted_as_its_tiles_are_seen(
    length: int, features: int, tokens: int
) -> None:
    """A tile of 16 queries computes keys up to its last token, padding included, by sixteens."""
    plan = Plan(length, features=features, tokens=tokens)
    position = torch.arange(plan.own * tokens).view(-1, tokens, 8).transpose(0, 1).flatten(1)
    counts = []
    for columns in position:
        ends = [int(tile.max()) + 1 for tile in columns.split(16)]
        counts.append(sum(16 * min(plan.keys, -(-end // 16) * 16) for end in ends))
    assert plan.attended() == max(counts) * 8 // features


@pytest.mark.parametrize("prompts", [1, 2])
@pytest.mark.parametrize(("features", "tokens"), DIVISIONS)
def test_bytes_sent_are_those_that_others_lack(features: int, tokens: int, prompts: int) -> None:
    """Operands and keys in bf16, partial sums and two statistics a norm in fp32."""
    plan = Plan(81, features=features, tokens=tokens, prompts=prompts)
    share = 256 // features * plan.columns
    operands = 3 * 2 * share * (features - 1)
    sums = 4 * share * (features - 1) + 3 * 2 * 4 * plan.columns * (features - 1)
    keys_and_values = 2 * 2 * share * (tokens - 1)
    assert sum(plan.sent().values()) == operands + sums + keys_and_values
    assert (plan.barriers() > 0) == (features * tokens > 1)
