"""Normalise the stream, inject the prompt, add positions, normalise again, and make q, k and v.

y = norm_f(source)   (or source itself)
x = y + e,  y * e + positions,  y + positions  or  y
qkv = norm_1(x) @ weightᵀ + bias
"""

from functools import cached_property
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
    TileTable,
    affine,
    normalise,
    normalise_backward,
    operand,
    product,
    rounded,
    rows_of,
    through_memory,
    vector,
    width,
)
from .gather import Operation, Uses, weight_product

_FORWARD = TileTable(
    Tiles(16, 16, 8, 1), Tiles(64, 128, 8, 2), Tiles(64, 64, 8, 2),
    Tiles(32, 64, 8, 2), Tiles(16, 32, 8, 2),
)  # fmt: skip
_WITHOUT_PRODUCT = Tiles(ROWS, 16, 2, 1)  # `columns` is not used


def reference(
    source: Tensor,
    e: Tensor | None,
    positions: Tensor | None,
    norm_f: nn.LayerNorm | None,
    norm_1: nn.LayerNorm,
    qkv: nn.Linear,
) -> tuple[Tensor, Tensor, Tensor]:
    """Does the same in PyTorch: y, x [B, S, D] and qkv [B, S, 3 D]. Both e and positions:
    multiply."""
    y = source if norm_f is None else norm_f(source)
    if e is None:
        x = y if positions is None else y + positions
    else:
        x = y + e if positions is None else torch.addcmul(positions, y, e)
    return y, x, F.linear(norm_1(x), qkv.weight, qkv.bias)


@triton.jit
def _x_rows(rows, S):
    """The row indices among [B, (S + 1) / 2] rows of x tokens alone, for rows of [B, S]."""
    return rows // S * ((S + 1) // 2) + rows % S // 2


@triton.jit
def qkv_forward_kernel(
    source, e, positions, norm_f_w, norm_f_b, norm_1_w, norm_1_b, weight, bias,
    x_out, y_out, a_out, qkv, N, S,
    D: tl.constexpr, EPSILON: tl.constexpr, NORM: tl.constexpr, INJECTION: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr, PRODUCT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """x, y at the x positions with KEEP, norm_1's output a and, with PRODUCT, qkv."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    columns = tl.arange(0, BLOCK_D)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    y = tl.load(source + begin + at, inside, 0.0)
    if NORM:
        y, _ = normalise(y, D, BLOCK_D, EPSILON)
        y = y * vector(norm_f_w, D, BLOCK_D) + vector(norm_f_b, D, BLOCK_D)
    if KEEP:
        at_x = _x_rows(rows, S).to(tl.int64)[:, None] * D
        even = inside & (rows % S % 2 == 0)[:, None]
        tl.store(y_out + at_x + columns[None, :], y, even)
    if INJECTION == "add":
        y += tl.load(e + begin + at, inside, 0.0)
    if INJECTION == "multiply":
        y *= tl.load(e + begin + at, inside, 0.0)
    if INJECTION == "multiply" or INJECTION == "none":
        y += tl.load(positions + (rows % S)[:, None] * D + columns[None, :], inside, 0.0)
    if INJECTION != "inner":
        tl.store(x_out + begin + at, y, inside)
    a, _ = normalise(y, D, BLOCK_D, EPSILON)
    a = a * vector(norm_1_w, D, BLOCK_D) + vector(norm_1_b, D, BLOCK_D)
    a = through_memory(operand(a, weight, PRECISION), a_out + begin, at, inside)
    if PRODUCT:
        qkv += begin * 3
        for start in range(0, 3 * D, BLOCK_N):
            outputs = start + tl.arange(0, BLOCK_N)
            w = tl.load(
                weight + outputs[None, :] * D + columns[:, None],
                (outputs < 3 * D)[None, :] & (columns < D)[:, None], 0.0,
            )  # fmt: skip
            z = product(a, w, tl.zeros([BLOCK_M, BLOCK_N], tl.float32), PRECISION)
            z += tl.load(bias + outputs, outputs < 3 * D, 0.0)[None, :]
            to = tl.arange(0, BLOCK_M)[:, None] * (3 * D) + outputs[None, :]
            tl.store(qkv + to, rounded(z, qkv), (rows < N)[:, None] & (outputs < 3 * D)[None, :])


@triton.jit
def qkv_backward_kernel(
    da_in, source, e, positions, norm_f_w, norm_f_b, norm_1_w, norm_1_b, dx_in, dy_out,
    a_out, dx_sum, de_sum, dsource, sums, N, S,
    D: tl.constexpr, EPSILON: tl.constexpr, NORM: tl.constexpr, INJECTION: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """All but the product: from the gradient of norm_1's output to that of the source.

    A program's sums over its rows for norm_1 and norm_f go to sums [tiles, 4, D]; the gradients of
    x (for e or the positions) are added up over the uses in dx_sum and, times y, in de_sum.
    """
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    columns = tl.arange(0, BLOCK_D)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    sums_at = sums + tile * 4 * D + columns
    y = tl.load(source + begin + at, inside, 0.0)
    y_normal, y_inverse = normalise(y, D, BLOCK_D, EPSILON)
    if NORM:
        y = y_normal * vector(norm_f_w, D, BLOCK_D) + vector(norm_f_b, D, BLOCK_D)
    x = y
    if INJECTION == "add":
        x += tl.load(e + begin + at, inside, 0.0)
    if INJECTION == "multiply":
        x *= tl.load(e + begin + at, inside, 0.0)
    if INJECTION == "multiply" or INJECTION == "none":
        x += tl.load(positions + (rows % S)[:, None] * D + columns[None, :], inside, 0.0)
    x_normal, x_inverse = normalise(x, D, BLOCK_D, EPSILON)
    weight = vector(norm_1_w, D, BLOCK_D)
    a = x_normal * weight + vector(norm_1_b, D, BLOCK_D)
    tl.store(a_out + begin + at, operand(a, a_out, PRECISION), inside)
    da = tl.load(da_in + begin + at, inside, 0.0).to(tl.float32)
    tl.store(sums_at, tl.sum(da * x_normal, 0), columns < D)
    tl.store(sums_at + D, tl.sum(da, 0), columns < D)
    dx = normalise_backward(da * weight, x_normal, x_inverse, D)
    dx += tl.load(dx_in + begin + at, inside, 0.0)
    if INJECTION != "inner":
        tl.store(dx_sum + begin + at, tl.load(dx_sum + begin + at, inside, 0.0) + dx, inside)
    if INJECTION == "multiply":
        tl.store(de_sum + begin + at, tl.load(de_sum + begin + at, inside, 0.0) + dx * y, inside)
        dx *= tl.load(e + begin + at, inside, 0.0)
    if KEEP:
        at_x = _x_rows(rows, S).to(tl.int64)[:, None] * D
        even = inside & (rows % S % 2 == 0)[:, None]
        dx += tl.load(dy_out + at_x + columns[None, :], even, 0.0)
    if NORM:
        tl.store(sums_at + 2 * D, tl.sum(dx * y_normal, 0), columns < D)
        tl.store(sums_at + 3 * D, tl.sum(dx, 0), columns < D)
        dx = normalise_backward(dx * vector(norm_f_w, D, BLOCK_D), y_normal, y_inverse, D)
    tl.store(dsource + begin + at, dx, inside)


class QkvOperation(Operation):
    """A layer's computation of q, k and v from the stream.

    `norm_f` is the loop's norm if it is between this layer and the one before; e [B, S, D] and
    positions [S, D] are given if `injection` needs them: add, multiply, none, or inner for a layer
    without injection.
    """

    def __init__(
        self,
        block: Block,
        compute: Compute,
        uses: Uses,
        *,
        injection: str = "inner",
        e: Tensor | None = None,
        positions: Tensor | None = None,
        norm_f: nn.LayerNorm | None = None,
    ) -> None:
        super().__init__(compute, uses)
        self.injection, self.norm_f, self.norm_1 = injection, norm_f, block.norm_1
        self.e = None if e is None else e.detach().contiguous()
        self.positions = None if positions is None else positions.detach().contiguous()
        self._dx: Tensor | None = None
        self._de: Tensor | None = None
        self.weight, self.bias = compute.cast(block.qkv.weight), block.qkv.bias.detach()
        injected = {"add": (e,), "multiply": (e, positions), "none": (positions,), "inner": ()}
        norm = () if norm_f is None else (norm_f.weight, norm_f.bias)
        layer = (block.norm_1.weight, block.norm_1.bias, block.qkv.weight, block.qkv.bias)
        self.parameters = tuple(p for p in (*injected[injection], *norm, *layer) if p is not None)

    def forward(self, source: Tensor, normed: bool, keep: bool) -> tuple[Tensor, ...]:
        """x [B, S, D], qkv [B, S, 3 D] and, with `keep`, y at the x positions."""
        prompts, length, D = source.shape
        x = source if self.injection == "inner" else torch.empty_like(source)
        y_out = source.new_empty(prompts, (length + 1) // 2, D) if keep else source
        a = self.weight.new_empty(source.shape)
        by_cublas = self.compute.variants.qkv_forward == "cublas"
        launch = _WITHOUT_PRODUCT if by_cublas else _FORWARD.choose(self.compute, D)
        qkv = a if by_cublas else self.weight.new_empty(prompts, length, 3 * D)
        qkv_forward_kernel[(triton.cdiv(prompts * length, launch.rows),)](
            source, *self._read(source), self.weight, self.bias, x, y_out, a, qkv,
            prompts * length, length, D, self.norm_1.eps, normed, self.injection, keep,
            self.compute.precision, not by_cublas, launch.rows, width(D), launch.columns,
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
        if by_cublas:
            qkv = torch.addmm(self._bias_operand, a.flatten(0, 1), self.weight.T)
            qkv = qkv.view(prompts, length, 3 * D)
        return (x, qkv, y_out) if keep else (x, qkv)

    def backward(
        self,
        use: int,
        source: Tensor,
        normed: bool,
        dx: Tensor,
        dqkv: Tensor,
        dy_out: Tensor | None,
    ) -> Tensor:
        """The gradient of `source`; `gradients` returns those of the parameters."""
        prompts, length, D = source.shape
        rows = prompts * length
        if use == self.uses.number - 1:  # a new pass
            self._dx = self._de = None
        launch = _WITHOUT_PRODUCT
        count = triton.cdiv(rows, launch.rows)
        da = dqkv.view(rows, 3 * D) @ self.weight
        a = self.slot("a", use, (rows, D), self.weight)
        sums = self.slot("sums", use, (count, 4, D), source)
        if not normed:
            sums[:, 2:] = 0
        dsource = torch.empty_like(source)
        qkv_backward_kernel[(count,)](
            da, source, *self._read(source), dx, dx if dy_out is None else dy_out,
            a, *self._sums(source), dsource, sums,
            rows, length, D, self.norm_1.eps, normed, self.injection, dy_out is not None,
            self.compute.precision, launch.rows, width(D), num_warps=launch.warps,
        )  # fmt: skip
        self.finish(use)
        return dsource

    @cached_property
    def _bias_operand(self) -> Tensor:
        """The bias in the compute dtype, as cuBLAS takes it. It is no factor: TF32 leaves it."""
        return self.bias.to(self.weight.dtype)

    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        sums = stacks["sums"].sum((0, 1))
        norm = () if self.norm_f is None else (sums[2], sums[3])
        weight = weight_product(stacks["dqkv"], stacks["a"])
        return (*norm, sums[0], sums[1], weight, stacks["bias"].sum((0, 1)))

    def gradients(self) -> tuple[Tensor | None, ...]:
        dx, de = self._dx, self._de
        self._dx = self._de = None
        if dx is None:
            return super().gradients()
        if self.positions is None:
            return (dx, *super().gradients())
        injected = (de, dx.sum(0)) if self.injection == "multiply" else (dx.sum(0),)
        return (*injected, *super().gradients())

    def _read(self, source: Tensor) -> tuple[Tensor, ...]:
        """e, positions and the norms; for absent ones, any tensor, which the kernels ignore."""
        e = source if self.e is None else self.e
        positions = source if self.positions is None else self.positions
        return (e, positions, *affine(self.norm_f or self.norm_1), *affine(self.norm_1))

    def _sums(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The sums of the gradients of x, and of those times y, over the uses so far, initially
        zero; `like` where this injection has none."""
        if self._dx is None and self.injection != "inner":
            self._dx = torch.zeros_like(like)
        if self._de is None and self.injection == "multiply":
            self._de = torch.zeros_like(like)
        return like if self._dx is None else self._dx, like if self._de is None else self._de


class Qkv(torch.autograd.Function):
    """x, qkv and, with `keep`, y at the x positions."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        operation: QkvOperation,
        use: int,
        source: Tensor,
        normed: bool,
        keep: bool,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(source)
        ctx.operation, ctx.use, ctx.normed = operation, use, normed
        return operation.forward(source, normed, keep)

    @staticmethod
    def backward(
        ctx: Any, dx: Tensor, dqkv: Tensor, dy_out: Tensor | None = None
    ) -> tuple[Any, ...]:
        (source,) = ctx.saved_tensors
        if dy_out is not None:
            dy_out = dy_out.contiguous()
        dsource = ctx.operation.backward(ctx.use, source, ctx.normed, dx, dqkv, dy_out)
        return None, None, None, dsource, None, None
