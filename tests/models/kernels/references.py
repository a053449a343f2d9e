"""What each kernel computes, in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from looplab.models.blocks.gpt2 import Block


def qkv(
    source: Tensor,
    e: Tensor | None,
    positions: Tensor | None,
    norm_f: nn.LayerNorm | None,
    norm_1: nn.LayerNorm,
    qkv: nn.Linear,
) -> tuple[Tensor, Tensor, Tensor]:
    """y, x [B, S, D] and qkv [B, S, 3 D]. Both e and positions: multiply."""
    y = source if norm_f is None else norm_f(source)
    if e is None:
        x = y if positions is None else y + positions
    else:
        x = y + e if positions is None else torch.addcmul(positions, y, e)
    return y, x, F.linear(norm_1(x), qkv.weight, qkv.bias)


def attention(qkv: Tensor, heads: int) -> Tensor:
    """qkv [B, S, 3 D] to [B, S, D]."""
    prompts, length, _ = qkv.shape
    query, key, value = qkv.view(prompts, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).flatten(2)


def projection(x: Tensor, mixed: Tensor, projection: nn.Linear, scale: float) -> Tensor:
    """All [B, S, D]."""
    return torch.add(x, F.linear(mixed, projection.weight, projection.bias), alpha=scale)


def mlp(x: Tensor, block: Block, scale: float) -> Tensor:
    """The stream after the MLP, [B, S, D]."""
    hidden = F.linear(block.norm_2(x), block.expand.weight, block.expand.bias)
    hidden = F.gelu(hidden, approximate="tanh")
    return torch.add(x, F.linear(hidden, block.contract.weight, block.contract.bias), alpha=scale)


def norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The normed stream."""
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
