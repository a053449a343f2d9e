"""A previous-token head, set by hand in the initial weights: the control for what training spends
on finding one (Olsson et al. 2022).

set_previous_token_head(loop, read_in)
"""

import math

import torch
from torch import Tensor, nn

from .blocks.gpt2 import Block
from .loops.loop import Loop

_WIDTH = 0.5  # of a position's numbers, about those of a token
_SCORE = 8.0  # of the token before; those of the others are near 0 in the mean


@torch.no_grad()
def set_previous_token_head(loop: Loop, read_in: nn.Linear) -> None:
    """Set queries and keys of the first head of the first block so that each token attends to the
    one before it; its values and all other weights stay as they are.

    The last numbers of the stream, as many as the head has, are those of the position alone:
    cosines and sines at evenly spaced frequencies, whose product with those of another position is
    largest where both are the same. Keys are these numbers, queries are turned back by one.
    """
    block = loop.blocks[0]
    size = loop.spec.head_size
    assert isinstance(block, Block)
    assert loop.positions is not None
    numbers = slice(loop.spec.n_embd - size, None)
    # The sum of cos(Δ · frequency) is size / 2 at distance Δ = 0, and 0 at all others below `size`.
    frequencies = (torch.arange(size // 2, dtype=torch.float64) + 0.5) * (2 * math.pi / size)
    angles = torch.arange(len(loop.positions))[:, None] * frequencies
    loop.positions[:, numbers] = _WIDTH * torch.cat((angles.cos(), angles.sin()), dim=1)
    read_in.weight[numbers] = 0
    read_in.bias[numbers] = 0
    cos = frequencies.cos().diag()
    sin = frequencies.sin().diag()
    # Turns each pair (cosine, sine) back by the angle of one position.
    back = torch.cat((torch.cat((cos, sin), dim=1), torch.cat((-sin, cos), dim=1)))
    # The norm brings a number to about 1: then the product with the same position is size / 2.
    # Queries and keys both have this factor, and attention divides by √size.
    scale = math.sqrt(_SCORE * math.sqrt(size) / (size / 2))
    same = torch.eye(size, dtype=torch.float64)
    # The first head's queries begin at row 0 of the fused matrix, its keys at row n_embd.
    for first, matrix in ((0, back), (loop.spec.n_embd, same)):
        _set_rows(block.qkv, slice(first, first + size), numbers, scale * matrix)


def _set_rows(layer: nn.Linear, rows: slice, columns: slice, part: Tensor) -> None:
    """Make these outputs those of these inputs alone."""
    layer.weight[rows] = 0
    layer.bias[rows] = 0
    layer.weight[rows, columns] = part
