"""The GPT-2 block: pre-LayerNorm causal attention and a tanh-GELU MLP, each added to the stream."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_SHORT = 48  # tokens up to which plain products are faster on a CPU than the fused attention
_HAS_ONEDNN = torch.backends.mkldnn.is_available()


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

    def forward(self, x: Tensor, *, scale: float = 1.0, every: int = 1) -> Tensor:
        """Map the stream x [B, S, n_embd] to the next, at `every` so many tokens of it; `scale`
        multiplies each residual branch."""
        mixed = self._attend(self.norm_1(x))[:, ::every]
        x = torch.add(x[:, ::every], self.projection(mixed), alpha=scale)
        hidden = _linear_gelu(self.norm_2(x), self.expand)
        return torch.add(x, self.contract(hidden), alpha=scale)

    def _attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        # On a CPU the backward pass of bf16 attention is several times slower than in fp32.
        slow = heads.device.type == "cpu" and heads.dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False) if slow else nullcontext():
            mixed = _attention(*(heads.float() if slow else heads).unbind(0))
        return mixed.transpose(1, 2).reshape(batch, length, width)


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention over [B, heads, S, width]."""
    length, width = query.shape[-2:]
    if query.device.type != "cpu" or length > _SHORT or torch.compiler.is_compiling():
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    mask = torch.full((length, length), -math.inf, dtype=query.dtype).triu(1)
    query, keys = query.flatten(0, 1), key.flatten(0, 1).mT
    weights = torch.baddbmm(mask, query, keys, alpha=1 / math.sqrt(width)).softmax(-1)
    return (weights @ value.flatten(0, 1)).view_as(value)


def _linear_gelu(x: Tensor, layer: nn.Linear) -> Tensor:
    """tanh-GELU of `layer` of x."""
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    plain = torch.is_grad_enabled() or x.device.type != "cpu" or torch.compiler.is_compiling()
    if plain or not _HAS_ONEDNN or dtype not in (torch.float32, torch.bfloat16):
        return F.gelu(layer(x), approximate="tanh")
    # Nobody asks for what lies between: oneDNN makes GELU part of the product, at a fifth of its
    # time alone.
    x, weight, bias = (t.to(dtype) for t in (x, layer.weight, layer.bias))
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "gelu", [], "tanh")
