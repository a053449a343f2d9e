"""Matrix products on a CPU by oneDNN, and GELU as part of them.

PyTorch gives float32 products to its BLAS; oneDNN's are up to a tenth faster where they are large,
and it adds GELU at a fifth of what it takes alone. Elsewhere, and wherever oneDNN is not at hand,
this is PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_plain = False  # whether PyTorch's own products are used on a CPU too
_WIDE = 128  # features from which on its own call pays
_HAS_ONEDNN = torch.backends.mkldnn.is_available()


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """layer(x), for x [..., in]."""
    wide = min(layer.weight.shape) >= _WIDE
    if wide and _compute_dtype(x) is torch.float32 and x.dtype is layer.weight.dtype:
        return _Linear.apply(x, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return layer(x)


def linear_gelu(x: Tensor, layer: nn.Linear) -> Tensor:
    """The tanh-GELU of layer(x); in one go where no gradient asks for what lies between."""
    dtype = _compute_dtype(x)
    if torch.is_grad_enabled() or dtype not in (torch.float32, torch.bfloat16):
        return F.gelu(linear(x, layer), approximate="tanh")
    return _product(x.to(dtype), layer.weight.to(dtype), layer.bias.to(dtype), "gelu")


@contextmanager
def plain_products() -> Iterator[None]:
    """Within, products are PyTorch's own: oneDNN's have no form for several models at once."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def _compute_dtype(x: Tensor) -> torch.dtype | None:
    """What oneDNN would multiply in; None where it is not to."""
    if _plain or x.device.type != "cpu" or not _HAS_ONEDNN or torch.compiler.is_compiling():
        return None
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, then: str = "none") -> Tensor:
    """x @ weightᵀ + bias, and what comes then."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, then, [], "tanh")


class _Linear(torch.autograd.Function):
    """F.linear, with derivatives of every kind and order."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            dx = rows @ weight
        else:
            dx = _product(rows, weight.T.contiguous(), None)
        shift = rows.sum(0) if ctx.needs_input_grad[2] else None
        return dx.view_as(x), rows.T @ x.flatten(0, -2), shift

    @staticmethod
    def jvp(ctx: Any, x: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        at_x, at_weight = ctx.saved_tensors
        zero = at_x.new_zeros(*at_x.shape[:-1], at_weight.shape[0])
        zero = zero if x is None else zero + x @ at_weight.T
        zero = zero if weight is None else zero + at_x @ weight.T
        return zero if bias is None else zero + bias
