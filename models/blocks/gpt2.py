"""The GPT-2 block: pre-LayerNorm causal attention and a tanh-GELU MLP, each added to the stream."""

import torch
from torch import Tensor, nn

from ..operations import current
from ..queries import ALL_TOKENS
from .attention import attend_heads, read_both


class Block(nn.Module):
    """One transformer layer of width `n_embd` with `n_head` heads (Radford et al. 2019)."""

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
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
        memory: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
    ) -> Tensor:
        """Map the stream x [B, S, n_embd] to the next, at these `tokens`; `scale` multiplies each
        residual branch. A token attends to those where its row of `mask` [S, S] is true; without a
        mask, to itself and those before it. Queries are read from `memory` [B, S, n_embd] where it
        is given, keys and values from x. `positions` [S], a parameter of all blocks, is ignored:
        positions are in the stream already."""
        normed_memory = None if memory is None else self.norm_1(memory)
        mixed = self._attend(self.norm_1(x), normed_memory, mask)[:, tokens]
        # x + ε · branch (arXiv 2606.18524), with no pass over the stream for the product.
        x = torch.add(x[:, tokens], current().linear(mixed, self.projection), alpha=scale)
        hidden = current().linear_gelu(self.norm_2(x), self.expand)
        return torch.add(x, current().linear(hidden, self.contract), alpha=scale)

    def _attend(self, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        qkv = read_both(x, memory, self.qkv, width)
        # [B, S, 3 · heads · size] → [3, B, heads, S, size].
        heads = qkv.view(batch, length, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        return attend_heads(heads, mask)
