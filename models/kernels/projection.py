"""The attention's output projection, added to the stream: x + scale · (mixed @ weightᵀ + bias)."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.nn import functional as F

from ..blocks.gpt2 import Block
from .common import Compute, Tiles, operand, product, rounded
from .gather import Operation, Uses, weight_product


def reference(x: Tensor, mixed: Tensor, projection: nn.Linear, scale: float) -> Tensor:
    """Does the same in PyTorch; all [B, S, D]."""
    return torch.add(x, F.linear(mixed, projection.weight, projection.bias), alpha=scale)


@triton.jit
def projection_forward_kernel(
    x, mixed, weight, bias, out, N, scale,
    D: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    row_at = rows.to(tl.int64)[:, None] * D
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, D, BLOCK_K):
        a = tl.load(mixed + row_at + (start + inner)[None, :], (rows < N)[:, None], 0.0)
        a = operand(a, weight, PRECISION)
        w = tl.load(
            weight + outputs[None, :] * D + (start + inner)[:, None], (outputs < D)[None, :], 0.0
        )
        sums = product(a, w, sums, PRECISION)
    inside = (rows < N)[:, None] & (outputs < D)[None, :]
    sums += tl.load(bias + outputs, outputs < D, 0.0)[None, :]
    stream = tl.load(x + row_at + outputs[None, :], inside, 0.0)
    tl.store(out + row_at + outputs[None, :], stream + scale * sums, inside)


@triton.jit
def projection_backward_kernel(
    dout, weight, scaled, dmixed, bias_sums, N, scale,
    D: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """scaled = scale · dout in the compute dtype, dmixed = scaled @ weight, and a tile's sums of
    scale · dout over its rows: bias_sums [tiles, D]."""
    first = tl.program_id(1) == 0
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    row_at = rows.to(tl.int64)[:, None] * D
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, D, BLOCK_K):
        at = row_at + (start + inner)[None, :]
        g = tl.load(dout + at, (rows < N)[:, None], 0.0) * scale
        if first:
            tl.store(bias_sums + tl.program_id(0) * D + start + inner, tl.sum(g, 0))
        g = operand(g, weight, PRECISION)
        tl.store(scaled + at, g, (rows < N)[:, None] & first)
        w = tl.load(
            weight + (start + inner)[:, None] * D + outputs[None, :], (outputs < D)[None, :], 0.0
        )
        sums = product(g, w, sums, PRECISION)
    inside = (rows < N)[:, None] & (outputs < D)[None, :]
    tl.store(dmixed + row_at + outputs[None, :], rounded(sums, dmixed), inside)


def tiles(compute: Compute) -> Tiles:
    """For both kernels; `columns` is the width of a program's output."""
    if compute.precision == "ieee":
        return Tiles(32, 32, 4, 1)
    return Tiles(32 if compute.tf32 else 64, 128, 4, 3)


class ProjectionOperation(Operation):
    """A layer's output projection."""

    def __init__(self, block: Block, compute: Compute, uses: Uses, scale: float) -> None:
        super().__init__(compute, uses)
        self.scale, self.mixed = scale, torch.empty(0)
        self.weight = compute.cast(block.projection.weight)
        self.bias = block.projection.bias.detach()
        self.parameters = (block.projection.weight, block.projection.bias)

    def slot_for_mixed(self, use: int, x: Tensor) -> Tensor:
        """The slot for the mixed heads of a use, of the shape of x: the uses are contiguous, for
        their product with the gradients."""
        if not len(self.mixed):
            rows, D = x.shape[0] * x.shape[1], x.shape[2]
            self.mixed = self.weight.new_empty(self.uses.number, rows, D)
        return self.mixed[use].view_as(x)

    def forward(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The stream after attention, from x and mixed, all [B, S, D]."""
        out = torch.empty_like(x)
        self._launch(projection_forward_kernel, x, x, mixed, self.weight, self.bias, out)
        return out

    def backward(self, use: int, dout: Tensor) -> Tensor:
        """The gradient of `mixed`; that of x is dout itself."""
        rows, D = dout.shape[0] * dout.shape[1], dout.shape[2]
        scaled = self.slot("scaled", use, (rows, D), self.weight)
        count = triton.cdiv(rows, tiles(self.compute).rows)
        bias_sums = self.slot("bias", use, (count, D), self.bias)
        dmixed = self.weight.new_empty(dout.shape)
        self._launch(projection_backward_kernel, dout, dout, self.weight, scaled, dmixed, bias_sums)
        self.finish(use)
        return dmixed

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        scaled = stacks["scaled"]
        weight = weight_product(scaled, self.mixed[first : first + len(scaled)])
        return weight, stacks["bias"].sum((0, 1))

    def _launch(self, kernel: Any, like: Tensor, *tensors: Tensor) -> None:
        (prompts, length, D), launch = like.shape, tiles(self.compute)
        rows = prompts * length
        kernel[(triton.cdiv(rows, launch.rows), triton.cdiv(D, launch.columns))](
            *tensors, rows, self.scale, D, self.compute.precision, launch.rows, launch.columns, 32,
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip


class Projection(torch.autograd.Function):
    """The stream after attention, [B, S, D]."""

    @staticmethod
    def forward(
        ctx: Any, token: Tensor, operation: ProjectionOperation, use: int, x: Tensor, mixed: Tensor
    ) -> Tensor:
        ctx.operation, ctx.use = operation, use
        return operation.forward(x, mixed)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
        return None, None, None, dout, ctx.operation.backward(ctx.use, dout)
