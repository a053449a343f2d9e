"""The loop's final LayerNorm over a whole stream, after the last step."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.nn import functional as F

from .common import ROWS, Compute, affine, normalise, normalise_backward, rows_of, vector, width
from .gather import Operation, Uses


def reference(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Does the same in PyTorch."""
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@triton.jit
def norm_forward_kernel(
    x, norm_w, norm_b, out, N,
    D: tl.constexpr, EPSILON: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    begin, at, inside = rows_of(tl.program_id(0), N, D, BLOCK_M, BLOCK_D)
    y, _ = normalise(tl.load(x + begin + at, inside, 0.0), D, BLOCK_D, EPSILON)
    tl.store(out + begin + at, y * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), inside)


@triton.jit
def norm_backward_kernel(
    x, norm_w, dout, skipped, dx, sums, N,
    D: tl.constexpr, EPSILON: tl.constexpr, SUMS: tl.constexpr, SKIP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """dx; with SKIP the gradient that skipped the norm is added. A tile's sums over its rows are
    the first two of sums [tiles, SUMS, D]."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    columns = tl.arange(0, BLOCK_D)
    normal, inverse = normalise(tl.load(x + begin + at, inside, 0.0), D, BLOCK_D, EPSILON)
    dy = tl.load(dout + begin + at, inside, 0.0)
    sums += SUMS * tile * D
    tl.store(sums + columns, tl.sum(dy * normal, 0), columns < D)
    tl.store(sums + D + columns, tl.sum(dy, 0), columns < D)
    dy = normalise_backward(dy * vector(norm_w, D, BLOCK_D), normal, inverse, D)
    if SKIP:
        dy += tl.load(skipped + begin + at, inside, 0.0)
    tl.store(dx + begin + at, dy, inside)


class NormOperation(Operation):
    """A LayerNorm over streams [B, S, D]."""

    def __init__(self, norm: nn.LayerNorm, compute: Compute) -> None:
        super().__init__(compute, Uses(1, 1))
        self.norm, self.parameters = norm, (norm.weight, norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The normed stream."""
        out = torch.empty_like(x)
        rows, D, grid = self._shape(x)
        norm_forward_kernel[grid](
            x, *affine(self.norm), out, rows, D, self.norm.eps, ROWS, width(D), num_warps=4
        )
        return out

    def backward(self, x: Tensor, dout: Tensor) -> Tensor:
        """The gradient of x; `gradients` returns those of weight and bias."""
        rows, D, grid = self._shape(x)
        sums, dx = self.slot("sums", 0, (*grid, 2, D), x), torch.empty_like(x)
        weight, _ = affine(self.norm)
        norm_backward_kernel[grid](
            x, weight, dout, dout, dx, sums, rows,
            D, self.norm.eps, 2, False, ROWS, width(D), num_warps=4,
        )  # fmt: skip
        self.finish(0)
        return dx

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        sums = stacks["sums"].sum((0, 1))
        return sums[0], sums[1]

    def _shape(self, x: Tensor) -> tuple[int, int, tuple[int]]:
        rows = x.shape[0] * x.shape[1]
        return rows, x.shape[2], (triton.cdiv(rows, ROWS),)


class Norm(torch.autograd.Function):
    """The normed stream."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, operation: NormOperation, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.operation = operation
        return operation.forward(x)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        return None, None, ctx.operation.backward(x, dout.contiguous())
