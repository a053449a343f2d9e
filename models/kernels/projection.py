"""The attention's output projection, added to the stream: x + scale · (mixed @ weightᵀ + bias)."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.nn import functional as F

from ..blocks.gpt2 import Block
from .common import (
    ROWS,
    Compute,
    Tiles,
    float32_product,
    operand,
    product,
    rounded,
    rows_of,
    vector,
    width,
)
from .gather import Operation, Uses, weight_product


def reference(x: Tensor, mixed: Tensor, projection: nn.Linear, scale: float) -> Tensor:
    """Does the same in PyTorch; all [B, S, D]."""
    return torch.add(x, F.linear(mixed, projection.weight, projection.bias), alpha=scale)


@triton.jit
def projection_forward_kernel(
    x, mixed, weight, bias, out, N, scale,
    D: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x + scale · (mixed @ weightᵀ + bias), of mixed [N, INNER] and weight [D, INNER]."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    mixed_at = rows.to(tl.int64)[:, None] * INNER
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, INNER, BLOCK_K):
        columns = start + inner
        a = tl.load(mixed + mixed_at + columns[None, :], (rows < N)[:, None], 0.0)
        a = operand(a, weight, PRECISION)
        w = tl.load(
            weight + outputs[None, :] * INNER + columns[:, None], (outputs < D)[None, :], 0.0
        )
        sums = product(a, w, sums, PRECISION)
    inside = (rows < N)[:, None] & (outputs < D)[None, :]
    row_at = rows.to(tl.int64)[:, None] * D
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


@triton.jit
def residual_kernel(
    x, sums, bias, out, N, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """x + scale · (sums + bias), of a product that PyTorch made."""
    begin, at, inside = rows_of(tl.program_id(0), N, D, BLOCK_M, BLOCK_D)
    total = tl.load(sums + begin + at, inside, 0.0) + vector(bias, D, BLOCK_D)
    stream = tl.load(x + begin + at, inside, 0.0)
    tl.store(out + begin + at, stream + scale * total, inside)


@triton.jit
def scale_kernel(
    x, out, bias_sums, N, scale,
    D: tl.constexpr, PRECISION: tl.constexpr, SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """scale · x as operand; with SUMS its sums over a tile's rows: bias_sums [tiles, D]."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    scaled = tl.load(x + begin + at, inside, 0.0).to(tl.float32) * scale
    tl.store(out + begin + at, operand(scaled, out, PRECISION), inside)
    if SUMS:
        columns = tl.arange(0, BLOCK_D)
        tl.store(bias_sums + tile * D + columns, tl.sum(scaled, 0), columns < D)


def tiles(compute: Compute) -> Tiles:
    """For both kernels with a product; `columns` is the width of a program's output."""
    if compute.precision == "ieee":
        return Tiles(32, 32, 4, 1)
    return Tiles(32 if compute.tf32 else 64, 128, 4, 3)


def add_product(
    x: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: float,
    precision: str,
    launch: Tiles,
    inner: int,
) -> Tensor:
    """x + scale · (inputs @ weightᵀ + bias) by one kernel, in steps of `inner` columns; x [B, S, D]
    and inputs [B, S, I]."""
    (prompts, length, D), out = x.shape, torch.empty_like(x)
    rows = prompts * length
    projection_forward_kernel[(triton.cdiv(rows, launch.rows), triton.cdiv(D, launch.columns))](
        x, inputs, weight, bias, out, rows, scale, D, inputs.shape[-1], precision,
        launch.rows, launch.columns, inner, num_warps=launch.warps, num_stages=launch.stages,
    )  # fmt: skip
    return out


def add_cublas_product(
    x: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor, scale: float
) -> Tensor:
    """The same with PyTorch's product; inputs [B · S, I] are operands."""
    (prompts, length, D), out = x.shape, torch.empty_like(x)
    rows, sums = prompts * length, float32_product(inputs, weight.T)
    residual_kernel[(triton.cdiv(rows, ROWS),)](
        x, sums, bias, out, rows, scale, D, ROWS, width(D), num_warps=4
    )
    return out


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
        constants = self.weight, self.bias, self.scale
        if self.compute.variants.projection_forward == "cublas":
            operands = mixed.flatten(0, 1)
            if self.compute.tf32:
                operands = torch.empty_like(operands)
                self._scale(mixed, operands, 1.0)
            return add_cublas_product(x, operands, *constants)
        return add_product(x, mixed, *constants, self.compute.precision, tiles(self.compute), 32)

    def backward(self, use: int, dout: Tensor) -> Tensor:
        """The gradient of `mixed`; that of x is dout itself."""
        rows, D = dout.shape[0] * dout.shape[1], dout.shape[2]
        by_cublas = self.compute.variants.projection_backward == "cublas"
        launch = tiles(self.compute)
        tile_count = triton.cdiv(rows, ROWS if by_cublas else launch.rows)
        scaled = self.slot("scaled", use, (rows, D), self.weight)
        bias_sums = self.slot("bias", use, (tile_count, D), self.bias)
        if by_cublas:
            self._scale(dout, scaled, self.scale, bias_sums)
            dmixed = (scaled @ self.weight).view(dout.shape)
        else:
            dmixed = self.weight.new_empty(dout.shape)
            projection_backward_kernel[(tile_count, triton.cdiv(D, launch.columns))](
                dout, self.weight, scaled, dmixed, bias_sums, rows, self.scale,
                D, self.compute.precision, launch.rows, launch.columns, 32,
                num_warps=launch.warps, num_stages=launch.stages,
            )  # fmt: skip
        self.finish(use)
        return dmixed

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        scaled = stacks["scaled"]
        weight = weight_product(scaled, self.mixed[first : first + len(scaled)])
        return weight, stacks["bias"].sum((0, 1))

    def _scale(self, x: Tensor, out: Tensor, scale: float, sums: Tensor | None = None) -> None:
        """Fill out [B · S, D] with scale · x, as operand, and `sums` with those over tiles."""
        rows, D = out.shape
        scale_kernel[(triton.cdiv(rows, ROWS),)](
            x, out, out if sums is None else sums, rows, scale,
            D, self.compute.precision, sums is not None, ROWS, width(D), num_warps=4,
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
