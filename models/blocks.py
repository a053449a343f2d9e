"""The GPT-2 block: pre-LayerNorm causal attention and a tanh-GELU MLP, each added to the stream."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .products import linear, linear_gelu
from .queries import ALL_TOKENS

_SHORT = 48  # tokens up to which plain products are faster on a CPU than the fused attention


class Block(nn.Module):
    """One transformer layer of width `n_embd` with `n_head` heads (Radford et al. 2019)."""

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"n_embd must be a multiple of n_head, got {n_embd} and {n_head}")
        self.n_head = n_head
        self.norm_1 = nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.projection = nn.Linear(n_embd, n_embd)
        self.norm_2 = nn.LayerNorm(n_embd)
        self.expand = nn.Linear(n_embd, 4 * n_embd)
        self.contract = nn.Linear(4 * n_embd, n_embd)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
    ) -> Tensor:
        """Map the stream x [B, S, n_embd] to the next, at these of its `tokens`; `scale` multiplies
        each residual branch. A token attends to those where its row of `mask` [S, S] is true;
        without a mask, to itself and those before it."""
        mixed = self._attend(self.norm_1(x), mask)[:, tokens]
        x = torch.add(x[:, tokens], linear(mixed, self.projection), alpha=scale)
        hidden = linear_gelu(self.norm_2(x), self.expand)
        return torch.add(x, linear(hidden, self.contract), alpha=scale)

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        heads = linear(x, self.qkv).view(batch, length, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        # On a CPU the backward pass of bf16 attention is several times slower than in fp32.
        slow = heads.device.type == "cpu" and heads.dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False) if slow else nullcontext():
            query, key, value = (heads.float() if slow else heads).unbind(0)
            mixed = _attention(query, key, value, mask)
        return mixed.transpose(1, 2).reshape(batch, length, width)


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention over [B, heads, S, width], by the mask [S, S] or causal."""
    if mask is not None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    length, width = query.shape[-2:]
    if query.device.type != "cpu" or length > _SHORT or torch.compiler.is_compiling():
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    future = query.new_full((length, length), -math.inf).triu(1)
    query, keys = query.flatten(0, 1), key.flatten(0, 1).mT
    weights = torch.baddbmm(future, query, keys, alpha=1 / math.sqrt(width)).softmax(-1)
    return (weights @ value.flatten(0, 1)).view_as(value)
