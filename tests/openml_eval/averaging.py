"""Checkpoints whose weights are set by hand: a standard transformer of two layers that weighs the
y_i of its context by softmax(β x_i·x) and takes their mean away. Over a small β that is averaging,
wᵀx with the covariances w of x_i and y_i.

write_averaging(folder, classes=2)      # a run folder, in no time, that answers from any context
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from looplab.conf.schema import Config, ModelConfig, TaskConfig
from looplab.models import Model
from looplab.models.blocks.gpt2 import Block
from tests.openml_eval.runs import make_model, write_run

DIMS, POINTS, BETA = 10, 41, 0.1
# Where things stand in the stream, all of it once more with the other sign, so that no LayerNorm
# moves its mean; the constant is so large that none changes its scale.
A, B = slice(0, DIMS), slice(DIMS, 2 * DIMS)  # what a token holds, and the token before it
COS, SIN, IS_Y, CONSTANT, SUM = range(2 * DIMS, 2 * DIMS + 5)
HALF = 2 * DIMS + 5
LARGE = 1000.0
SHARP, ONLY = 3e4, 1e3  # logits that single out a neighbour by its angle, and the y tokens


def write_averaging(folder: Path, classes: int) -> Path:
    """A run folder with such a model of `classes` (0: a regressor of linear functions)."""
    config = Config(
        task=TaskConfig("halfspaces" if classes else "linear", dims=DIMS, points=POINTS),
        model=ModelConfig("standard", 2, 2 * HALF, 2, POINTS, "none"),
    )
    return write_run(folder, config, averaging(make_model(config), BETA))


@torch.no_grad()
def averaging(model: Model, beta: float) -> Model:
    """The model with its weights set."""
    for weights in model.parameters():
        weights.zero_()
    for norm in (module for module in model.modules() if isinstance(module, nn.LayerNorm)):
        norm.weight.fill_(LARGE / HALF**0.5)  # gives the stream back as it was
    model.read_in.weight.copy_(both(torch.eye(HALF)[:, A]))
    positions = model.get_parameter("loop.positions")
    place = torch.arange(len(positions))
    angle = 2 * torch.pi * place / len(positions)
    rows = torch.zeros(len(positions), HALF)
    rows[:, COS], rows[:, SIN], rows[:, CONSTANT] = angle.cos(), angle.sin(), LARGE
    rows[:, IS_Y] = place % 2
    positions.copy_(both(rows.T).T)
    turn = torch.tensor(2 * torch.pi / len(positions))
    # Layer 1: every token reads the one before it, whose angle is its own less one turn.
    query, key, value = torch.zeros(3, 2, HALF, HALF)
    query[0, 0, COS], query[0, 0, SIN] = turn.cos(), turn.sin()
    query[0, 1, COS], query[0, 1, SIN] = -turn.sin(), turn.cos()
    key[0, 0, COS] = key[0, 1, SIN] = SHARP
    value[0, B, A] = torch.eye(DIMS)
    set_attention(model, 0, query, key, value)
    # Layer 2: every token reads the y tokens' first number; its first head by what stands before
    # those, its second from all alike, to be taken away.
    query, key, value = torch.zeros(3, 2, HALF, HALF)
    query[0, A, A], key[0, A, B] = beta * torch.eye(DIMS), torch.eye(DIMS)
    query[:, IS_Y, CONSTANT], key[:, IS_Y, IS_Y] = ONLY / LARGE, 1.0
    value[0, SUM, 0], value[1, SUM, 0] = 1.0, -1.0
    set_attention(model, 1, query, key, value)
    model.read_out.weight[-1, SUM] = 1 / beta
    return model


def set_attention(model: Model, layer: int, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Attention of one layer by its heads' maps [2, HALF, HALF] of the stream's first half."""
    block = model.loop.blocks[layer]
    assert isinstance(block, Block)
    parts = block.qkv.weight.view(3, 2, HALF, 2, HALF)[:, :, :, 0]
    parts.copy_(torch.stack((query * HALF**0.5, key, value)))  # attention divides by √width
    block.projection.weight.copy_(both(torch.eye(HALF)).repeat(1, 2))


def both(matrix: Tensor) -> Tensor:
    """What writes into the stream [HALF, n], and the same with the other sign below it."""
    return torch.cat((matrix, -matrix))
