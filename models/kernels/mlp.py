"""The MLP, added to the stream: x + scale · contract(gelu(expand(norm_2(x)))).

A program loads its rows once and computes the hidden layer in chunks. Forwards it is never stored;
backwards it is computed again and stored with its gradient, for the products that give the weights'
gradients, one for all uses.
"""

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

_FORWARD = TileTable(
    Tiles(16, 16, 8, 1), Tiles(64, 64, 4, 2), Tiles(64, 32, 4, 2),
    Tiles(16, 32, 4, 2), Tiles(16, 32, 4, 2),
)  # fmt: skip
_BACKWARD = TileTable(
    Tiles(32, 16, 8, 2), Tiles(32, 64, 4, 2), Tiles(16, 64, 4, 2),
    Tiles(16, 32, 4, 2), Tiles(16, 16, 4, 2),
)  # fmt: skip


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
    dx, sums, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """dx from dout. For the weights' gradients, in the compute dtype: norm_2's output and
    scale · dout [N, D], the hidden layer and beside it the gradient before GELU [N, 8 D]. A
    program's sums over its rows for the gradients of norm_2, contract_b and expand_b go to sums
    [tiles, 7 D]."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    x += begin
    dout += begin
    hidden_out += begin * 8
    sums += tile * 7 * D
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
        tl.store(sums + 3 * D + units, tl.sum(dpre, 0))
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
        (prompts, length, D), launch = x.shape, _FORWARD.choose(self.compute, x.shape[-1])
        rows, out, b = prompts * length, torch.empty_like(x), self.expand.new_empty(x.shape)
        mlp_forward_kernel[(triton.cdiv(rows, launch.rows),)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, self.contract_b,
            b, out, rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        return out

    def backward(self, use: int, x: Tensor, dout: Tensor) -> Tensor:
        """The gradient of x; `gradients` returns those of the parameters."""
        (prompts, length, D), launch = x.shape, _BACKWARD.choose(self.compute, x.shape[-1])
        rows = prompts * length
        count, cast = triton.cdiv(rows, launch.rows), self.expand
        b, scaled = (self.slot(name, use, (rows, D), cast) for name in ("b", "scaled"))
        hidden = self.slot("hidden", use, (rows, 8 * D), cast)
        sums, dx = self.slot("sums", use, (count, 7 * D), x), torch.empty_like(x)
        mlp_backward_kernel[(count,)](
            x, *affine(self.norm), self.expand, self.expand_b, self.contract, dout,
            b, scaled, hidden, dx, sums, rows, self.scale, *self._constants(D, launch),
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        self.finish(use)
        return dx

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        D = stacks["b"].shape[-1]
        norm_w, norm_b, contract_b, expand_b = stacks["sums"].sum((0, 1)).split([D, D, D, 4 * D])
        hidden, dpre = stacks["hidden"].split(4 * D, dim=-1)
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
