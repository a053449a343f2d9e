"""Kernels for the MLP in parts, its variants split and cublas: what stands beside the products of
PyTorch, and products that are spread over rows and hidden units."""

import triton
import triton.language as tl

from .common import (
    gelu_gate,
    gelu_slope,
    normalise,
    operand,
    product,
    rows_of,
    vector,
)


@triton.jit
def mlp_norm_kernel(
    x, norm_w, norm_b, dout, b_out, scaled, sums, N, scale,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr, BACKWARD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """norm_2's output as operand; with BACKWARD also scale · dout, and its sums over a tile's rows,
    the third of sums [tiles, 3, D]."""
    tile = tl.program_id(0)
    begin, at, inside = rows_of(tile, N, D, BLOCK_M, BLOCK_D)
    b, _ = normalise(tl.load(x + begin + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D)
    tl.store(b_out + begin + at, operand(b, b_out, PRECISION), inside)
    if BACKWARD:
        g = tl.load(dout + begin + at, inside, 0.0) * scale
        tl.store(scaled + begin + at, operand(g, scaled, PRECISION), inside)
        columns = tl.arange(0, BLOCK_D)
        tl.store(sums + (3 * tile + 2) * D + columns, tl.sum(g, 0), columns < D)


@triton.jit
def _gelu(
    pre, dhidden, expand_b, hidden, unit_sums, rows, units, N,
    D: tl.constexpr, PRECISION: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """Store the hidden layer [N, 4 D] from its product without bias, a tile [rows, units]. With
    BACKWARD, which takes its gradient dhidden: beside it the gradient before GELU [N, 8 D], and the
    sums of that over the tile's rows, unit_sums [tiles, 4 D]."""
    STRIDE: tl.constexpr = 8 * D if BACKWARD else 4 * D
    to = hidden + rows.to(tl.int64)[:, None] * STRIDE + units[None, :]
    inside = (rows < N)[:, None]
    pre += tl.load(expand_b + units)[None, :]
    gate = gelu_gate(pre, hidden)
    tl.store(to, operand(pre * gate, hidden, PRECISION), inside)
    if BACKWARD:
        dpre = dhidden * gelu_slope(pre, gate)
        tl.store(to + 4 * D, operand(dpre, hidden, PRECISION), inside)
        tl.store(unit_sums + tl.program_id(0) * 4 * D + units, tl.sum(dpre, 0))


@triton.jit
def mlp_expand_kernel(
    x, norm_w, norm_b, expand, expand_b, hidden, N,
    D: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The hidden layer [N, 4 D] from the stream: every program norms its rows itself."""
    begin, at, inside = rows_of(tl.program_id(0), N, D, BLOCK_M, BLOCK_D)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    units = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, BLOCK_D)[:, None]
    b, _ = normalise(tl.load(x + begin + at, inside, 0.0), D, BLOCK_D, EPSILON)
    b = operand(b * vector(norm_w, D, BLOCK_D) + vector(norm_b, D, BLOCK_D), expand, PRECISION)
    w = tl.load(expand + units[None, :] * D + columns, columns < D, 0.0)
    pre = product(b, w, tl.zeros([BLOCK_M, BLOCK_N], tl.float32), PRECISION)
    _gelu(pre, pre, expand_b, hidden, hidden, rows, units, N, D, PRECISION, False)


@triton.jit
def mlp_hidden_kernel(
    b, scaled, expand, expand_b, contract, hidden, unit_sums, N,
    D: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The hidden layer and beside it the gradient before GELU, with its sums, from norm_2's output
    and scale · dout."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    units = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_at, inside = rows.to(tl.int64)[:, None] * D, (rows < N)[:, None]
    pre = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    dhidden = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, D, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        w = tl.load(expand + units[None, :] * D + columns[:, None])
        pre = product(tl.load(b + row_at + columns[None, :], inside, 0.0), w, pre, PRECISION)
        g = tl.load(scaled + row_at + columns[None, :], inside, 0.0)
        w = tl.load(contract + columns[:, None] * (4 * D) + units[None, :])
        dhidden = product(g, w, dhidden, PRECISION)
    _gelu(pre, dhidden, expand_b, hidden, unit_sums, rows, units, N, D, PRECISION, True)


@triton.jit
def mlp_gelu_kernel(
    pre, dhidden, expand_b, hidden, unit_sums, N,
    D: tl.constexpr, PRECISION: tl.constexpr, BACKWARD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The same from products that PyTorch made, pre and dhidden [N, 4 D]; without BACKWARD the
    hidden layer alone."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    units = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    at, inside = rows.to(tl.int64)[:, None] * (4 * D) + units[None, :], (rows < N)[:, None]
    pre = tl.load(pre + at, inside, 0.0)
    dhidden = tl.load(dhidden + at, inside, 0.0) if BACKWARD else pre
    _gelu(pre, dhidden, expand_b, hidden, unit_sums, rows, units, N, D, PRECISION, BACKWARD)
