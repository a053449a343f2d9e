"""The MLP, added to the stream: x + scale · contract(gelu(expand(norm_2(x)))).

A program loads its rows once and computes the hidden layer in chunks, forwards and backwards, so
that the hidden layer is never stored. The weight gradients recompute it once more, for all uses.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from ..blocks.gpt2 import Block
from .common import (
    Compute,
    Tiles,
    TileTable,
    affine,
    gelu,
    gelu_slope,
    normalise,
    normalise_backward,
    product,
    rounded,
    rows_of,
    vector,
    width,
)
from .gather import Operation, Uses

_FORWARD = TileTable(
    Tiles(16, 16, 8, 1), Tiles(64, 64, 8, 2), Tiles(32, 32, 8, 2), Tiles(16, 16, 8, 2)
)
_BACKWARD = TileTable(
    Tiles(32, 16, 8, 2), Tiles(64, 32, 8, 2), Tiles(32, 16, 8, 2), Tiles(16, 16, 8, 2)
)
_WEIGHTS = TileTable(
    Tiles(16, 16, 4, 1), Tiles(32, 64, 8, 2), Tiles(16, 32, 8, 2), Tiles(16, 16, 8, 1)
)
_PROGRAMS = 264  # of `weights_kernel`: twice the multiprocessors of an H100


def reference(x: Tensor, block: Block, scale: float) -> Tensor:
    """The same in PyTorch, [B, S, D]."""
    hidden = F.linear(block.norm_2(x), block.expand.weight, block.expand.bias)
    hidden = F.gelu(hidden, approximate="tanh")
    return torch.add(x, F.linear(hidden, block.contract.weight, block.contract.bias), alpha=scale)


@triton.jit
def _outward(weight, units, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """A chunk of hidden units' weights [BLOCK_D, units] of a matrix stored as [4 D, D]."""
    columns = tl.arange(0, BLOCK_D)
    return tl.load(weight + units[None, :] * D + columns[:, None], (columns < D)[:, None], 0.0)


@triton.jit
def _inward(weight, units, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """A chunk of hidden units' weights [units, BLOCK_D] of a matrix stored as [4 D, D]."""
    columns = tl.arange(0, BLOCK_D)
    return tl.load(weight + units[:, None] * D + columns[None, :], (columns < D)[None, :], 0.0)


@triton.jit
def forward_kernel(
    x, norm_w, norm_b, expand, expand_b, contract, contract_b, out, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`expand` and `contract` are both [4 D, D]: a row of each belongs to a hidden unit."""
    begin, at, inside = rows_of(tl.program_id(0), N, D, BLOCK_M, BLOCK_D)
    x += begin
    b, _ = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = rounded(b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), expand)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, 4 * D, BLOCK_K):
        units = start + tl.arange(0, BLOCK_K)
        w = _outward(expand, units, D, BLOCK_D)
        hidden = product(b, w, tl.zeros([BLOCK_M, BLOCK_K], tl.float32), PRECISION)
        hidden = gelu(hidden + tl.load(expand_b + units)[None, :])
        sums = product(
            rounded(hidden, expand), _inward(contract, units, D, BLOCK_D), sums, PRECISION
        )
    sums = (sums + vector(contract_b, D, BLOCK_D)) * scale
    tl.store(out + begin + at, tl.load(x + at, inside, 0.0) + sums, inside)


@triton.jit
def backward_kernel(
    x, norm_w, norm_b, expand, expand_b, contract, dout, b_out, scaled, dx, sums, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """dx from dout; for the weight gradients, norm_2's output and scale · dout, both in the compute
    dtype; and the sums for norm_2's gradients [tiles, 2, D]."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    x += begin
    dout += begin
    columns = tl.arange(0, BLOCK_D)
    b, _ = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = rounded(b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), expand)
    tl.store(b_out + begin + at, b, inside)
    g = rounded(tl.load(dout + at, inside, 0.0) * scale, expand)
    tl.store(scaled + begin + at, g, inside)
    db = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, 4 * D, BLOCK_K):
        units = start + tl.arange(0, BLOCK_K)
        zeros = tl.zeros([BLOCK_M, BLOCK_K], tl.float32)
        pre = product(b, _outward(expand, units, D, BLOCK_D), zeros, PRECISION)
        pre += tl.load(expand_b + units)[None, :]
        dhidden = product(g, _outward(contract, units, D, BLOCK_D), zeros, PRECISION)
        dpre = dhidden * gelu_slope(pre)
        db = product(rounded(dpre, expand), _inward(expand, units, D, BLOCK_D), db, PRECISION)
    normal, inverse = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    tl.store(sums + (2 * tile) * D + columns, tl.sum(db * normal, 0), columns < D)
    tl.store(sums + (2 * tile + 1) * D + columns, tl.sum(db, 0), columns < D)
    db = normalise_backward(db * vector(norm_w, D, BLOCK_D), normal, inverse, D)
    tl.store(dx + begin + at, db + tl.load(dout + at, inside, 0.0), inside)


@triton.jit
def weights_kernel(
    b, expand, expand_b, contract, scaled, dexpand, dexpand_b, dcontract, N, ROWS,
    D: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A chunk of hidden units' weight gradients over ROWS of the N rows: part `program_id(1)` of
    dexpand, dcontract [parts, 4 D, D] and dexpand_b [parts, 4 D]."""
    units = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    part = tl.program_id(1)
    columns = tl.arange(0, BLOCK_D)
    inward_e = _inward(expand, units, D, BLOCK_D)
    inward_c = _inward(contract, units, D, BLOCK_D)
    bias = tl.load(expand_b + units)[:, None]
    sums_e = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    sums_c = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    sums_b = tl.zeros([BLOCK_K], tl.float32)
    zeros = tl.zeros([BLOCK_K, BLOCK_M], tl.float32)
    for start in range(part * ROWS, tl.minimum((part + 1) * ROWS, N), BLOCK_M):
        begin, at, inside = rows_of(start // BLOCK_M, N, D, BLOCK_M, BLOCK_D)
        b_rows = tl.load(b + begin + at, inside, 0.0)
        g = tl.load(scaled + begin + at, inside, 0.0)
        # Hidden units are the rows here, as in the sums.
        pre = product(inward_e, tl.trans(b_rows), zeros, PRECISION) + bias
        hidden = gelu(pre)
        dpre = product(inward_c, tl.trans(g), zeros, PRECISION) * gelu_slope(pre)
        sums_b += tl.sum(dpre, 1)
        sums_e = product(rounded(dpre, expand), b_rows, sums_e, PRECISION)
        sums_c = product(rounded(hidden, expand), g, sums_c, PRECISION)
    at = (part * 4 * D + units)[:, None] * D + columns[None, :]
    tl.store(dexpand + at, sums_e, (columns < D)[None, :])
    tl.store(dcontract + at, sums_c, (columns < D)[None, :])
    tl.store(dexpand_b + part * 4 * D + units, sums_b)


class MlpOperation(Operation):
    """A layer's MLP with the norm before it."""

    def __init__(self, block: Block, compute: Compute, uses: Uses, scale: float) -> None:
        super().__init__(compute, uses)
        self.scale, self.norm = scale, block.norm_2
        self.expand, self.expand_b = compute.cast(block.expand.weight), block.expand.bias.detach()
        self.contract = compute.cast(block.contract.weight.T)
        self.contract_b = block.contract.bias.detach()
        self.parameters = (
            *(block.norm_2.weight, block.norm_2.bias, block.expand.weight, block.expand.bias),
            *(block.contract.weight, block.contract.bias),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The stream after the MLP, from x [B, S, D]."""
        (prompts, length, D), launch = x.shape, _FORWARD.choose(self.compute, x.shape[-1])
        rows, out = prompts * length, torch.empty_like(x)
        forward_kernel[(triton.cdiv(rows, launch.rows),)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, self.contract_b, out,
            rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return out

    def backward(self, use: int, x: Tensor, dout: Tensor) -> Tensor:
        """The gradient of x; `gradients` returns those of the parameters."""
        (prompts, length, D), launch = x.shape, _BACKWARD.choose(self.compute, x.shape[-1])
        rows = prompts * length
        count = triton.cdiv(rows, launch.rows)
        b = self.slot("b", use, (rows, D), self.expand)
        scaled = self.slot("scaled", use, (rows, D), self.expand)
        sums, dx = self.slot("sums", use, (count, 2, D), x), torch.empty_like(x)
        backward_kernel[(count,)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, dout,
            b, scaled, dx, sums, rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        self.finish(use)
        return dx

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        b, scaled, sums = stacks["b"], stacks["scaled"], stacks["sums"].sum((0, 1))
        D, rows = b.shape[-1], b.numel() // b.shape[-1]
        launch = _WEIGHTS.choose(self.compute, D)
        chunks, tiles = 4 * D // launch.columns, triton.cdiv(rows, launch.rows)
        part_tiles = triton.cdiv(tiles, max(1, min(tiles, _PROGRAMS // chunks)))
        parts = triton.cdiv(tiles, part_tiles)
        dexpand, dcontract = sums.new_empty(2, parts, 4 * D, D)
        dexpand_b = sums.new_empty(parts, 4 * D)
        weights_kernel[(chunks, parts)](
            b, self.expand, self.expand_b, self.contract, scaled, dexpand, dexpand_b, dcontract,
            rows, part_tiles * launch.rows, D, self.compute.precision,
            launch.rows, width(D), launch.columns, num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return (
            *(sums[0], sums[1], dexpand.sum(0), dexpand_b.sum(0)),
            *(dcontract.sum(0).T, scaled.sum((0, 1), dtype=torch.float32)),
        )

    def _constants(self, D: int, launch: Tiles) -> tuple[Any, ...]:
        shape = (launch.rows, width(D), launch.columns)
        return (D, self.norm.eps, self.compute.precision, *shape)


class Mlp(torch.autograd.Function):
    """The stream after the MLP, [B, S, D]."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, operation: MlpOperation, use: int, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.operation, ctx.use = operation, use
        return operation.forward(x)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        return None, None, None, ctx.operation.backward(ctx.use, x, dout.contiguous())
