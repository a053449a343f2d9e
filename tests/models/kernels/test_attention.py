"""Attention."""

from typing import Any

import pytest
import torch

from looplab.models.blocks.gpt2 import Block
from looplab.models.kernels.attention import Attention, reference
from looplab.models.kernels.attention import tiles as attention_tiles
from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.qkv import QkvOperation
from tests.models.kernels.shapes import ONE_TOKEN, Shape, shapes
from tests.models.kernels.yardstick import Draws, assert_near

# Heads of 8, 16, 24, 32 and 64 dimensions.
NARROW = Shape(1, 6, 32, 4, 1)
UNEVEN = Shape(2, 23, 32, 2, 1)
NO_POWER_OF_TWO = Shape(1, 17, 96, 4, 1)
TWO_TILES = Shape(1, 69, 32, 1, 1)  # even where a tile has 64 rows
WIDE = Shape(2, 5, 64, 1, 1)


def check(shape: Shape, size: float, compute: Compute, device: torch.device) -> None:
    """Queries, keys and values of that size."""
    draws = Draws(device)
    drawn = draws.normal(shape.prompts, shape.length, 3 * shape.width)
    qkv = (drawn * size).to(compute.dtype).detach().requires_grad_()
    operation = QkvOperation(Block(shape.width, shape.heads).to(device), compute, Uses(1, 1))
    attention: Any = Attention
    mixed = qkv.new_empty(shape.prompts, shape.length, shape.width)
    out = attention.apply(qkv, shape.heads, operation, 0, mixed)
    (dout,) = draws.like(out)
    (dqkv,) = torch.autograd.grad(out, qkv, dout)
    rows = dqkv.flatten(0, 1)
    assert torch.equal(rows, operation.slot("dqkv", 0, rows.shape, rows))
    tiles = shape.prompts * -(-shape.length // attention_tiles(compute).rows)
    bias = torch.zeros(3 * shape.width, device=device, requires_grad=True)
    dbias = operation.slot("bias", 0, (tiles, 3 * shape.width), bias).sum(0)
    ours = {"out": out, "dqkv": dqkv, "dbias": dbias}
    assert_near(
        ours, lambda x, bias: (reference(x + bias, shape.heads),), (qkv, bias), [dout], compute
    )


@pytest.mark.parametrize(
    "shape", shapes(ONE_TOKEN, NARROW, UNEVEN, NO_POWER_OF_TWO, TWO_TILES, WIDE)
)
def test_attention_and_its_gradients_are_near(
    shape: Shape, compute: Compute, device: torch.device
) -> None:
    check(shape, 1.0, compute, device)


def test_so_they_are_where_few_keys_take_all_weight(compute: Compute, device: torch.device) -> None:
    """Scores of some 2^6, whose exponentials no float32 holds."""
    check(UNEVEN, 8.0, compute, device)
