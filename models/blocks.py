"""The GPT-2 block: pre-LayerNorm causal attention and a tanh-GELU MLP, each added to the stream."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        """Map the stream x [B, S, n_embd] to the next; `scale` multiplies each residual branch."""
        x = torch.add(x, self._attend(self.norm_1(x)), alpha=scale)
        hidden = F.gelu(self.expand(self.norm_2(x)), approximate="tanh")
        return torch.add(x, self.contract(hidden), alpha=scale)

    def _attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        # On a CPU the backward pass of bf16 attention is several times slower than in fp32.
        slow = heads.device.type == "cpu" and heads.dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False) if slow else nullcontext():
            query, key, value = (heads.float() if slow else heads).unbind(0)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
