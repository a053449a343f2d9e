"""RMSNorm, rotation and squared ReLU on a CPU, with their derivatives written out.

PyTorch takes each apart into products and sums, one pass over memory each, and keeps a tensor for
each of them. Values and derivatives are the same up to rounding.
"""

from typing import Any

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x [..., n] over the root of its mean square plus eps, times weight [n] where there is one."""
    normed, _ = _Normed.apply(x, eps)  # type: ignore[no-untyped-call]
    return normed if weight is None else normed * weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads [B, S, heads, size] rotated by cos and sin [S, 1, size], each of two equal halves."""
    half = x.shape[-1] // 2
    return _Rotated.apply(x, cos[..., :half], sin[..., :half])  # type: ignore[no-untyped-call]


def squared_relu(z: Tensor) -> Tensor:
    """The square of z where z is above 0, else 0."""
    return _SquaredRelu.apply(z)  # type: ignore[no-untyped-call]


class _Normed(torch.autograd.Function):
    """x times f = 1 / root(mean x² + eps), and f, which has no gradient of its own."""

    @staticmethod
    def forward(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        # Σ x² [..., 1] in one reduction: x.square() would be a tensor as large as x.
        squares = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        factor = squares.div_(x.shape[-1]).add_(eps).rsqrt_()
        return x * factor, factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.eps = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, *output)
        ctx.save_for_forward(x, *output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        return _Normed._product(ctx, gradient), None

    @staticmethod
    def jvp(ctx: Any, x: Tensor, _: None) -> tuple[Tensor, None]:
        return _Normed._product(ctx, x), None

    @staticmethod
    def _product(ctx: Any, v: Tensor) -> Tensor:
        """The Jacobian, which is symmetric, times v: f (v - y <v, y> / n) with y = f x."""
        x, normed, factor = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, which goes through f
            factor = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
            normed = x * factor
        along = torch.linalg.vecdot(v, normed).unsqueeze(-1)
        projected = torch.addcmul(v, normed, along, value=-1 / x.shape[-1])
        # In place only where no graph holds `projected`.
        return projected * factor if torch.is_grad_enabled() else projected.mul_(factor)


class _Rotated(torch.autograd.Function):
    """(a cos - b sin, b cos + a sin) of the halves a and b; the gradient is turned back."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned = torch.empty_like(x)
        # Chunks are views: what is written to `first` and `second` is written to `turned`.
        (a, b), (first, second) = x.chunk(2, -1), turned.chunk(2, -1)
        torch.mul(a, cos, out=first).addcmul_(b, sin, value=-1)
        torch.mul(b, cos, out=second).addcmul_(a, sin)
        return turned

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        # The transpose of a rotation is the rotation by the opposite angle.
        return _Rotated.apply(gradient, cos, -sin), None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, x: Tensor, *_: None) -> Tensor:
        rotated: Tensor = _Rotated.apply(x, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return rotated


class _SquaredRelu(torch.autograd.Function):
    @staticmethod
    def forward(z: Tensor) -> Tensor:
        return z.relu().square_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SquaredRelu._product(ctx, gradient)

    @staticmethod
    def jvp(ctx: Any, z: Tensor) -> Tensor:
        return _SquaredRelu._product(ctx, z)

    @staticmethod
    def _product(ctx: Any, v: Tensor) -> Tensor:
        """2 relu(z) v."""
        (z,) = ctx.saved_tensors
        # The product in one pass: addcmul is 0 + 2 · relu(z) · v, with a broadcast zero.
        return torch.addcmul(v.new_zeros(()), z.relu(), v, value=2.0)
