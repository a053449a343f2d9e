"""The operations of a block that a backend can replace; here they are plain PyTorch.

with using(CpuOperations()):
    predictions = model(prompts, loops=12)

With a `Cache` of the keys and values of the tokens so far, a text is continued token by token:

cache = Cache()
logits = model.continue_text(tokens, loops=12, cache=cache)      # [B, S, vocabulary]
logits = model.continue_text(next_tokens, loops=12, cache=cache)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .queries import ALL_TOKENS, Layout


class Operations:
    """The operations of the backend `eager`; other backends compute the same up to rounding."""

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """The layer's outputs [..., out] for x [..., in]."""
        return layer(x)

    def linear_gelu(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """GELU, in its tanh form, of the layer's outputs."""
        return F.gelu(layer(x), approximate="tanh")

    def rms_norm(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        """x [..., n] over the root of its mean square plus eps, times `weight` [n]."""
        return F.rms_norm(x, x.shape[-1:], weight, eps)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Heads [B, S, heads, size], rotated by angles with these cosines and sines [S, 1, size],
        of two equal halves; in their dtype."""
        # x cos + x⊥ sin, where x⊥ = (−second, first) is each pair (first, second) turned by 90°.
        first, second = x.chunk(2, dim=-1)
        return torch.addcmul(x * cos, torch.cat((-second, first), dim=-1), sin)

    def squared_relu(self, z: Tensor) -> Tensor:
        """The square of z where it is above 0, else 0."""
        return F.relu(z).square()

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        """Softmax attention of queries, keys and values [3, B, heads, S, size], by the mask [S, S]
        or causal: [B, heads, S, size]."""
        query, key, value = heads.unbind(0)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )


def attend_by_products(heads: Tensor, mask: Tensor | None) -> Tensor:
    """`Operations.attend` by two batched products and a softmax."""
    query, key, value = heads.unbind(0)
    length, width = query.shape[-2:]
    # Added to the scores [B · heads, S, S]: −∞ where a token must not attend, else 0.
    bias = query.new_full((length, length), -math.inf)
    bias = bias.triu(1) if mask is None else bias.masked_fill(mask, 0.0)
    queries = query.flatten(0, 1)
    keys = key.flatten(0, 1).mT
    scores = torch.baddbmm(bias, queries, keys, alpha=1 / math.sqrt(width))
    return (scores.softmax(-1) @ value.flatten(0, 1)).view_as(value)


_current = Operations()


def current() -> Operations:
    """The operations by which blocks compute now."""
    return _current


@contextmanager
def using(operations: Operations) -> Iterator[None]:
    """Within this context blocks compute by these operations."""
    global _current
    previous = _current
    _current = operations
    try:
        yield
    finally:
        _current = previous


class Cache:
    """The keys and values of every attention of a pass, in the order in which a pass computes them:
    those of each layer in each loop, since a loop has other ones than the loop before. With
    `shared` those of each layer in its last loop alone, which later tokens read in all of theirs
    (arXiv 2502.05171)."""

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared
        self.length = 0  # tokens so far
        self.entries: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def bytes(self) -> int:
        """The bytes of all keys and values."""
        return sum(part.nbytes for entry in self.entries.values() for part in entry)

    def layout(self, tokens: int, device: torch.device) -> Layout:
        """The layout of this many further tokens: each attends to all before it and to itself."""
        positions = torch.arange(self.length, self.length + tokens, device=device)
        # The mask is [tokens, length + tokens]: rows for the new tokens alone.
        keys = torch.arange(self.length + tokens, device=device)
        return Layout(positions, keys <= positions[:, None], ALL_TOKENS)

    def operations(self, plain: Operations) -> CachedOperations:
        """The operations of one pass over further tokens."""
        return CachedOperations(self, plain)


class CachedOperations(Operations):
    """Operations whose attention reads the keys and values of earlier tokens too, and keeps those
    of the new ones. `next` is the entry of the next attention: set back, it is written again, and
    earlier tokens have there what they had before the pass."""

    def __init__(self, cache: Cache, plain: Operations) -> None:
        self._cache = cache
        self._plain = plain
        self.next = 0
        # A copy where the pass overwrites entries: tokens before it must keep what they had.
        self._before = dict(cache.entries) if cache.shared else cache.entries

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return self._plain.linear(x, layer)

    def linear_gelu(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return self._plain.linear_gelu(x, layer)

    def rms_norm(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        return self._plain.rms_norm(x, weight, eps)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return self._plain.rotate(x, cos, sin)

    def squared_relu(self, z: Tensor) -> Tensor:
        return self._plain.squared_relu(z)

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = heads.unbind(0)
        number = self.next
        self.next += 1
        if number in self._before:
            old_key, old_value = self._before[number]
            # Along the tokens of [B, heads, S, size].
            key = torch.cat((old_key, key), dim=2)
            value = torch.cat((old_value, value), dim=2)
        self._cache.entries[number] = key, value
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
