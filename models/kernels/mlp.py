"""The MLP, added to the stream: x + scale · contract(gelu(expand(norm_2(x)))).

Fused, a program loads its rows once and computes the hidden layer in chunks. Forwards it is never
stored; backwards it is computed again and stored with its gradient, for the products that give the
weights' gradients, one for all uses. `mlp_parts` has the kernels of the other variants.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from ..blocks.gpt2 import Block
from .common import (
    ROWS,
    Compute,
    Tiles,
    TileTable,
    affine,
    float32_product,
    gelu_gate,
    gelu_slope,
    normalise,
    normalise_backward,
    operand,
    product,
    rows_of,
    through_memory,
    vector,
    width,
)
from .gather import Operation, Uses, weight_product
from .mlp_parts import mlp_expand_kernel, mlp_gelu_kernel, mlp_hidden_kernel, mlp_norm_kernel
from .norm import norm_backward_kernel
from .projection import add_cublas_product, add_product

_FORWARD = TileTable(
    Tiles(16, 16, 8, 1), Tiles(64, 64, 4, 2), Tiles(64, 32, 4, 2),
    Tiles(16, 32, 4, 2), Tiles(16, 32, 4, 2),
)  # fmt: skip
_BACKWARD = TileTable(
    Tiles(32, 16, 8, 2), Tiles(32, 64, 4, 2), Tiles(16, 64, 4, 2),
    Tiles(16, 32, 4, 2), Tiles(16, 16, 4, 2),
)  # fmt: skip
# Rows and hidden units of the variants in parts; none has been timed.
_EXPAND = TileTable(
    Tiles(16, 16, 8, 1), Tiles(64, 128, 4, 1), Tiles(64, 32, 4, 1),
    Tiles(64, 32, 8, 1), Tiles(32, 32, 8, 1),
)  # fmt: skip
_GELU = Tiles(32, 128, 4, 1)


def _contract_tiles(compute: Compute) -> Tiles:
    if compute.precision == "ieee":
        return Tiles(32, 32, 4, 1)
    return Tiles(32 if compute.tf32 else 64, 64, 4, 3)


def _hidden_tiles(compute: Compute) -> Tiles:
    if compute.precision == "ieee":
        return Tiles(32, 32, 4, 1)
    return Tiles(32, 64, 4, 2) if compute.tf32 else Tiles(64, 128, 8, 2)


def _step(inner: int, compute: Compute) -> int:
    """The columns of a product's step: 128 bytes of each row, or less where `inner` has others."""
    return math.gcd(inner, 128 // compute.dtype.itemsize)


def reference(x: Tensor, block: Block, scale: float) -> Tensor:
    """Does the same in PyTorch, [B, S, D]."""
    hidden = F.linear(block.norm_2(x), block.expand.weight, block.expand.bias)
    hidden = F.gelu(hidden, approximate="tanh")
    return torch.add(x, F.linear(hidden, block.contract.weight, block.contract.bias), alpha=scale)


@triton.jit
def _chunk(weight, units, UNIT: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """A chunk of hidden units' weights, [BLOCK_D, units]: of `expand` [4 D, D] with UNIT = D, of
    `contract` [D, 4 D] with UNIT = 1."""
    columns = tl.arange(0, BLOCK_D)
    stride: tl.constexpr = 1 if UNIT == D else 4 * D  # from one column to the next
    at = units[None, :] * UNIT + columns[:, None] * stride
    return tl.load(weight + at, (columns < D)[:, None], 0.0)


@triton.jit
def mlp_forward_kernel(
    x, norm_w, norm_b, expand, expand_b, contract, contract_b, b_out, out, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    begin, at, inside = rows_of(tl.program_id(0), N, D, BLOCK_M, BLOCK_D)
    x += begin
    b, _ = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = operand(b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), expand, PRECISION)
    b = through_memory(b, b_out + begin, at, inside)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, 4 * D, BLOCK_K):
        units = start + tl.arange(0, BLOCK_K)
        w = _chunk(expand, units, D, D, BLOCK_D)
        pre = product(b, w, tl.zeros([BLOCK_M, BLOCK_K], tl.float32), PRECISION)
        pre += tl.load(expand_b + units)[None, :]
        hidden = operand(pre * gelu_gate(pre, expand), expand, PRECISION)
        sums = product(hidden, tl.trans(_chunk(contract, units, 1, D, BLOCK_D)), sums, PRECISION)
    sums = (sums + vector(contract_b, D, BLOCK_D)) * scale
    tl.store(out + begin + at, tl.load(x + at, inside, 0.0) + sums, inside)


@triton.jit
def mlp_backward_kernel(
    x, norm_w, norm_b, expand, expand_b, contract, dout, b_out, scaled, hidden_out,
    dx, sums, unit_sums, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """dx from dout. For the weights' gradients, in the compute dtype: norm_2's output and
    scale · dout [N, D], the hidden layer and beside it the gradient before GELU [N, 8 D]. A
    program's sums over its rows go to sums [tiles, 3, D] for the gradients of norm_2 and
    contract_b, and to unit_sums [tiles, 4 D] for that of expand_b."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    x += begin
    dout += begin
    hidden_out += begin * 8
    sums += tile * 3 * D
    unit_sums += tile * 4 * D
    columns = tl.arange(0, BLOCK_D)
    rows = tl.arange(0, BLOCK_M)[:, None]
    b, _ = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = operand(b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), expand, PRECISION)
    b = through_memory(b, b_out + begin, at, inside)
    g = tl.load(dout + at, inside, 0.0) * scale
    tl.store(sums + 2 * D + columns, tl.sum(g, 0), columns < D)
    g = through_memory(operand(g, expand, PRECISION), scaled + begin, at, inside)
    db = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, 4 * D, BLOCK_K):
        units = start + tl.arange(0, BLOCK_K)
        zeros = tl.zeros([BLOCK_M, BLOCK_K], tl.float32)
        w = _chunk(expand, units, D, D, BLOCK_D)
        pre = product(b, w, zeros, PRECISION) + tl.load(expand_b + units)[None, :]
        gate = gelu_gate(pre, expand)
        to, stored = rows * (8 * D) + units[None, :], tile * BLOCK_M + rows < N
        tl.store(hidden_out + to, operand(pre * gate, expand, PRECISION), stored)
        dpre = product(g, _chunk(contract, units, 1, D, BLOCK_D), zeros, PRECISION)
        dpre *= gelu_slope(pre, gate)
        tl.store(unit_sums + units, tl.sum(dpre, 0))
        dpre = operand(dpre, expand, PRECISION)
        tl.store(hidden_out + to + 4 * D, dpre, stored)
        db = product(dpre, tl.trans(w), db, PRECISION)
    normal, inverse = normalise(tl.load(x + at, inside, 0.0), D, BLOCK_D, EPSILON)
    tl.store(sums + columns, tl.sum(db * normal, 0), columns < D)
    tl.store(sums + D + columns, tl.sum(db, 0), columns < D)
    db = normalise_backward(db * vector(norm_w, D, BLOCK_D), normal, inverse, D)
    tl.store(dx + begin + at, db + tl.load(dout + at, inside, 0.0), inside)


class MlpOperation(Operation):
    """A layer's MLP with the norm before it."""

    def __init__(self, block: Block, compute: Compute, uses: Uses, scale: float) -> None:
        super().__init__(compute, uses)
        self.scale, self.norm = scale, block.norm_2
        self.expand, self.expand_b = compute.cast(block.expand.weight), block.expand.bias.detach()
        self.contract = compute.cast(block.contract.weight)
        self.contract_b = block.contract.bias.detach()
        self.parameters = (
            *(block.norm_2.weight, block.norm_2.bias, block.expand.weight, block.expand.bias),
            *(block.contract.weight, block.contract.bias),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The stream after the MLP, from x [B, S, D]."""
        ways = {"fused": self._fused, "split": self._split, "cublas": self._cublas}
        return ways[self.compute.variants.mlp_forward](x)

    def _fused(self, x: Tensor) -> Tensor:
        (prompts, length, D), launch = x.shape, _FORWARD.choose(self.compute, x.shape[-1])
        rows, out, b = prompts * length, torch.empty_like(x), self.expand.new_empty(x.shape)
        mlp_forward_kernel[(triton.cdiv(rows, launch.rows),)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, self.contract_b,
            b, out, rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return out

    def _split(self, x: Tensor) -> Tensor:
        (prompts, length, D), launch = x.shape, _EXPAND.choose(self.compute, x.shape[-1])
        rows, hidden = prompts * length, self.expand.new_empty(prompts, length, 4 * D)
        mlp_expand_kernel[(triton.cdiv(rows, launch.rows), 4 * D // launch.columns)](
            x, *affine(self.norm), self.expand, self.expand_b, hidden, rows,
            *self._constants(D, launch), num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return add_product(
            x,
            hidden,
            self.contract,
            self.contract_b,
            self.scale,
            self.compute.precision,
            _contract_tiles(self.compute),
            _step(4 * D, self.compute),
        )

    def _cublas(self, x: Tensor) -> Tensor:
        (prompts, length, D), precision = x.shape, self.compute.precision
        rows, b = prompts * length, self.expand.new_empty(prompts * length, D)
        mlp_norm_kernel[(triton.cdiv(rows, ROWS),)](
            x, *affine(self.norm), x, b, b, b, rows, self.scale,
            D, self.norm.eps, precision, False, ROWS, width(D), num_warps=4,
        )  # fmt: skip
        pre, hidden = float32_product(b, self.expand.T), self.expand.new_empty(rows, 4 * D)
        self._gelu(pre, pre, hidden, hidden, False)
        return add_cublas_product(x, hidden, self.contract, self.contract_b, self.scale)

    def backward(self, use: int, x: Tensor, dout: Tensor) -> Tensor:
        """The gradient of x; `gradients` returns those of the parameters."""
        in_parts = self._backward_in_parts
        ways: dict[str, Callable[[int, Tensor, Tensor], Tensor]] = {
            "fused": self._backward_fused,
            "split": partial(in_parts, self._hidden_by_kernel, _hidden_tiles(self.compute)),
            "cublas": partial(in_parts, self._hidden_by_cublas, _GELU),
        }
        dx = ways[self.compute.variants.mlp_backward](use, x, dout)
        self.finish(use)
        return dx

    def _slots(self, use: int, x: Tensor, tiles: int, unit_tiles: int) -> tuple[Tensor, ...]:
        """What `weight_gradients` reads: b, scaled, hidden and, by tiles, sums and unit_sums."""
        rows, D = x.shape[0] * x.shape[1], x.shape[2]
        b = self.slot("b", use, (rows, D), self.expand)
        scaled = self.slot("scaled", use, (rows, D), self.expand)
        hidden = self.slot("hidden", use, (rows, 8 * D), self.expand)
        sums = self.slot("sums", use, (tiles, 3, D), x)
        return b, scaled, hidden, sums, self.slot("unit_sums", use, (unit_tiles, 4 * D), x)

    def _backward_fused(self, use: int, x: Tensor, dout: Tensor) -> Tensor:
        (prompts, length, D), launch = x.shape, _BACKWARD.choose(self.compute, x.shape[-1])
        rows, dx = prompts * length, torch.empty_like(x)
        tiles = triton.cdiv(rows, launch.rows)
        b, scaled, hidden, sums, unit_sums = self._slots(use, x, tiles, tiles)
        mlp_backward_kernel[(tiles,)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, dout,
            b, scaled, hidden, dx, sums, unit_sums, rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return dx

    def _backward_in_parts(
        self, make_hidden: Callable[..., None], launch: Tiles, use: int, x: Tensor, dout: Tensor
    ) -> Tensor:
        (prompts, length, D), dx = x.shape, torch.empty_like(x)
        rows, (norm_w, norm_b) = prompts * length, affine(self.norm)
        tiles, unit_tiles = triton.cdiv(rows, ROWS), triton.cdiv(rows, launch.rows)
        b, scaled, hidden, sums, unit_sums = self._slots(use, x, tiles, unit_tiles)
        mlp_norm_kernel[(tiles,)](
            x, norm_w, norm_b, dout, b, scaled, sums, rows, self.scale,
            D, self.norm.eps, self.compute.precision, True, ROWS, width(D), num_warps=4,
        )  # fmt: skip
        make_hidden(b, scaled, hidden, unit_sums)
        db = float32_product(hidden[:, 4 * D :], self.expand)
        norm_backward_kernel[(tiles,)](
            x, norm_w, db, dout, dx, sums, rows,
            D, self.norm.eps, sums.shape[1], True, ROWS, width(D), num_warps=4,
        )  # fmt: skip
        return dx

    def _hidden_by_kernel(
        self, b: Tensor, scaled: Tensor, hidden: Tensor, unit_sums: Tensor
    ) -> None:
        (rows, D), launch = b.shape, _hidden_tiles(self.compute)
        mlp_hidden_kernel[(len(unit_sums), 4 * D // launch.columns)](
            b, scaled, self.expand, self.expand_b, self.contract, hidden, unit_sums, rows,
            D, self.compute.precision, launch.rows, launch.columns, _step(D, self.compute),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip

    def _hidden_by_cublas(
        self, b: Tensor, scaled: Tensor, hidden: Tensor, unit_sums: Tensor
    ) -> None:
        pre, dhidden = float32_product(b, self.expand.T), float32_product(scaled, self.contract)
        self._gelu(pre, dhidden, hidden, unit_sums, True)

    def _gelu(
        self, pre: Tensor, dhidden: Tensor, hidden: Tensor, unit_sums: Tensor, backward: bool
    ) -> None:
        (rows, units), launch = pre.shape, _GELU
        mlp_gelu_kernel[(triton.cdiv(rows, launch.rows), units // launch.columns)](
            pre, dhidden, self.expand_b, hidden, unit_sums, rows,
            units // 4, self.compute.precision, backward, launch.rows, launch.columns,
            num_warps=launch.warps,
        )  # fmt: skip

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        norm_w, norm_b, contract_b = stacks["sums"].sum((0, 1))
        expand_b = stacks["unit_sums"].sum((0, 1))
        hidden, dpre = stacks["hidden"].chunk(2, dim=-1)
        expand = weight_product(dpre, stacks["b"])
        contract = weight_product(stacks["scaled"], hidden)
        return norm_w, norm_b, expand, expand_b, contract, contract_b

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
