"""The operations of a block that a backend may replace; here they are plain PyTorch.

with using(CpuOperations()):
    predictions = model(prompts, loops=12)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional as F


class Operations:
    """What the backend `eager` computes, and all others but for rounding."""

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """The layer's outputs [..., out] for x [..., in]."""
        return layer(x)

    def linear_gelu(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """GELU, in its tanh form, of the layer's outputs."""
        return F.gelu(layer(x), approximate="tanh")

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Softmax attention over [B, heads, S, size], by the mask [S, S] or causal."""
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )


_current = Operations()


@contextmanager
def using(operations: Operations) -> Iterator[None]:
    """Within, the functions of this module are those of `operations`."""
    global _current
    before, _current = _current, operations
    try:
        yield
    finally:
        _current = before


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """`Operations.linear` of those in use."""
    return _current.linear(x, layer)


def linear_gelu(x: Tensor, layer: nn.Linear) -> Tensor:
    """`Operations.linear_gelu` of those in use."""
    return _current.linear_gelu(x, layer)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """`Operations.attend` of those in use."""
    return _current.attend(query, key, value, mask)
