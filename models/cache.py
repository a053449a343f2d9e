"""Keys and values of the tokens so far, so that a text is continued token by token.

cache = Cache()
logits = model.continue_text(tokens, loops=12, cache=cache)      # [B, S, vocabulary]
logits = model.continue_text(next_tokens, loops=12, cache=cache)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .operations import Operations
from .queries import ALL_TOKENS, Layout


class Cache:
    """The keys and values of every attention of a pass, in the order in which a pass computes them:
    those of each layer in each loop, since a loop has other ones than the loop before."""

    def __init__(self) -> None:
        self.length = 0  # tokens so far
        self.entries: list[tuple[Tensor, Tensor]] = []

    def layout(self, tokens: int, device: torch.device) -> Layout:
        """The layout of this many further tokens: each attends to all before it and to itself."""
        positions = torch.arange(self.length, self.length + tokens, device=device)
        keys = torch.arange(self.length + tokens, device=device)
        return Layout(positions, keys <= positions[:, None], ALL_TOKENS)

    def operations(self, plain: Operations) -> CachedOperations:
        """The operations of one pass over further tokens."""
        return CachedOperations(self, plain)


class CachedOperations(Operations):
    """Operations whose attention reads the keys and values of earlier tokens too, and keeps those
    of the new ones."""

    def __init__(self, cache: Cache, plain: Operations) -> None:
        self._cache, self._plain, self._next = cache, plain, 0

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return self._plain.linear(x, layer)

    def linear_gelu(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return self._plain.linear_gelu(x, layer)

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = heads.unbind(0)
        entries, number = self._cache.entries, self._next
        self._next += 1
        if number < len(entries):
            old_key, old_value = entries[number]
            key, value = torch.cat((old_key, key), dim=2), torch.cat((old_value, value), dim=2)
            entries[number] = key, value
        else:
            entries.append((key, value))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
