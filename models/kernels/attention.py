"""Causal attention for short sequences: one program per (prompt, head) and tile of rows.

Softmax is taken online over blocks of keys (Milakov and Gimelshein 2018). Blocks beyond the
diagonal are skipped. The backward pass recomputes the probabilities from the saved logarithm of
each row's sum (Dao et al. 2022).
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from .common import Compute, Tiles, product, rounded, width
from .qkv import QkvOperation

_LOG2_E = 1 / math.log(2)


def reference(qkv: Tensor, heads: int) -> Tensor:
    """Does the same in PyTorch: qkv [B, S, 3 D] to [B, S, D]."""
    prompts, length, _ = qkv.shape
    query, key, value = qkv.view(prompts, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).flatten(2)


@triton.jit
def _block(
    pointer, start, S,
    STRIDE: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows start .. start + BLOCK - 1 of one head, [BLOCK, BLOCK_H], zero beyond S and H."""
    rows, dims = start + tl.arange(0, BLOCK), tl.arange(0, BLOCK_H)
    inside = (rows < S)[:, None] & (dims < H)[None, :]
    return tl.load(pointer + rows[:, None] * STRIDE + dims[None, :], inside, 0.0)


@triton.jit
def _store(
    pointer, tile, start, S,
    STRIDE: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows, dims = start + tl.arange(0, BLOCK), tl.arange(0, BLOCK_H)
    inside = (rows < S)[:, None] & (dims < H)[None, :]
    tl.store(pointer + rows[:, None] * STRIDE + dims[None, :], rounded(tile, pointer), inside)


@triton.jit
def _store_sums(pointer, tile, H: tl.constexpr, BLOCK_H: tl.constexpr):
    """The sums over rows of a tile that is zero beyond the last token."""
    dims = tl.arange(0, BLOCK_H)
    tl.store(pointer + dims, tl.sum(tile, 0), dims < H)


@triton.jit
def attention_forward_kernel(
    qkv, out, log_sums, S, scale,
    D: tl.constexpr, HEADS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    H: tl.constexpr = D // HEADS
    start = tl.program_id(1) * BLOCK
    prompt, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    qkv += prompt * S * 3 * D + head * H
    rows = start + tl.arange(0, BLOCK)
    query = _block(qkv, start, S, 3 * D, H, BLOCK_H, BLOCK)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    for at in range(0, start + BLOCK, BLOCK):
        key = _block(qkv + D, at, S, 3 * D, H, BLOCK_H, BLOCK)
        value = _block(qkv + 2 * D, at, S, 3 * D, H, BLOCK_H, BLOCK)
        scores = product(query, tl.trans(key), tl.zeros([BLOCK, BLOCK], tl.float32), PRECISION)
        keys = at + tl.arange(0, BLOCK)
        scores = tl.where(keys[None, :] <= rows[:, None], scores * scale, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp2(highest - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        mixed = product(rounded(weights, qkv), value, mixed * shrink[:, None], PRECISION)
        highest = higher
    _store(out + prompt * S * D + head * H, mixed / total[:, None], start, S, D, H, BLOCK_H, BLOCK)
    tl.store(log_sums + tl.program_id(0) * S + rows, highest + tl.log2(total), rows < S)


@triton.jit
def _weights(query, key, log_sum, rows, keys, scale, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Attention weights of `rows` over `keys`, recomputed."""
    scores = product(query, tl.trans(key), tl.zeros([BLOCK, BLOCK], tl.float32), PRECISION)
    past = keys[None, :] <= rows[:, None]
    return tl.exp2(tl.where(past, scores * scale - log_sum[:, None], float("-inf")))


@triton.jit
def attention_backward_kernel(
    qkv, out, log_sums, dout, dqkv, bias_sums, S, scale,
    D: tl.constexpr, HEADS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of one tile: as queries over earlier keys, as keys over later rows; and their
    sums over its rows, for the gradient of qkv's bias: bias_sums [B, tiles, 3 D]."""
    H: tl.constexpr = D // HEADS
    start = tl.program_id(1) * BLOCK
    prompt, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    qkv += prompt * S * 3 * D + head * H
    dqkv += prompt * S * 3 * D + head * H
    out += prompt * S * D + head * H
    dout += prompt * S * D + head * H
    log_sums += tl.program_id(0) * S
    bias_sums += (prompt * tl.num_programs(1) + tl.program_id(1)) * 3 * D + head * H
    tile_rows = start + tl.arange(0, BLOCK)
    ln_2: tl.constexpr = 0.6931471805599453  # scale includes log2(e), a derivative does not

    query = _block(qkv, start, S, 3 * D, H, BLOCK_H, BLOCK)
    doutput = _block(dout, start, S, D, H, BLOCK_H, BLOCK)
    output = _block(out, start, S, D, H, BLOCK_H, BLOCK)
    delta = tl.sum(doutput.to(tl.float32) * output.to(tl.float32), 1)
    log_sum = tl.load(log_sums + tile_rows, tile_rows < S, 0.0)
    dquery = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    for at in range(0, start + BLOCK, BLOCK):
        key = _block(qkv + D, at, S, 3 * D, H, BLOCK_H, BLOCK)
        value = _block(qkv + 2 * D, at, S, 3 * D, H, BLOCK_H, BLOCK)
        keys = at + tl.arange(0, BLOCK)
        weights = _weights(query, key, log_sum, tile_rows, keys, scale, BLOCK, PRECISION)
        dweights = product(
            doutput, tl.trans(value), tl.zeros([BLOCK, BLOCK], tl.float32), PRECISION
        )
        dscores = weights * (dweights - delta[:, None])
        dquery = product(rounded(dscores, qkv), key, dquery, PRECISION)
    dquery *= scale * ln_2
    _store(dqkv, dquery, start, S, 3 * D, H, BLOCK_H, BLOCK)
    _store_sums(bias_sums, dquery, H, BLOCK_H)

    key = _block(qkv + D, start, S, 3 * D, H, BLOCK_H, BLOCK)
    value = _block(qkv + 2 * D, start, S, 3 * D, H, BLOCK_H, BLOCK)
    dkey = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    dvalue = tl.zeros([BLOCK, BLOCK_H], tl.float32)
    for at in range(start, S, BLOCK):
        rows = at + tl.arange(0, BLOCK)
        query = _block(qkv, at, S, 3 * D, H, BLOCK_H, BLOCK)
        doutput = _block(dout, at, S, D, H, BLOCK_H, BLOCK)
        output = _block(out, at, S, D, H, BLOCK_H, BLOCK)
        delta = tl.sum(doutput.to(tl.float32) * output.to(tl.float32), 1)
        log_sum = tl.load(log_sums + rows, rows < S, 0.0)
        weights = _weights(query, key, log_sum, rows, tile_rows, scale, BLOCK, PRECISION)
        dvalue = product(tl.trans(rounded(weights, qkv)), doutput, dvalue, PRECISION)
        dweights = product(
            doutput, tl.trans(value), tl.zeros([BLOCK, BLOCK], tl.float32), PRECISION
        )
        dscores = weights * (dweights - delta[:, None])
        dkey = product(tl.trans(rounded(dscores, qkv)), query, dkey, PRECISION)
    dkey *= scale * ln_2
    _store(dqkv + D, dkey, start, S, 3 * D, H, BLOCK_H, BLOCK)
    _store_sums(bias_sums + D, dkey, H, BLOCK_H)
    _store(dqkv + 2 * D, dvalue, start, S, 3 * D, H, BLOCK_H, BLOCK)
    _store_sums(bias_sums + 2 * D, dvalue, H, BLOCK_H)


def tiles(compute: Compute) -> Tiles:
    """The tiles: as many rows of queries as of keys."""
    if compute.precision == "ieee":
        return Tiles(16, 0, 4, 1)
    return Tiles(32, 0, 2, 2) if compute.tf32 else Tiles(32, 0, 1, 1)


def _launch(kernel: Any, qkv: Tensor, heads: int, compute: Compute, *tensors: Tensor) -> None:
    prompts, length, D = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    head, launch = D // heads, tiles(compute)
    # PyTorch's attention does not round float32 to TF32 either, even where TF32 is allowed.
    precision = "tf32x3" if compute.tf32 else compute.precision
    kernel[(prompts * heads, triton.cdiv(length, launch.rows))](
        qkv, *tensors, length, _LOG2_E / math.sqrt(head),
        D, heads, precision, max(16, width(head)), launch.rows,
        num_warps=launch.warps, num_stages=launch.stages,
    )  # fmt: skip


def attend(qkv: Tensor, heads: int, compute: Compute, out: Tensor) -> Tensor:
    """Fill out [B, S, D] from qkv [B, S, 3 D]; the logarithms of the rows' sums, [B, heads, S]."""
    log_sums = qkv.new_empty(qkv.shape[0], heads, qkv.shape[1], dtype=torch.float32)
    _launch(attention_forward_kernel, qkv, heads, compute, out, log_sums)
    return log_sums


class Attention(torch.autograd.Function):
    """Mixed heads, [B, S, D]. The gradient goes to the slot of `operation`, which made qkv."""

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, heads: int, operation: QkvOperation, use: int, out: Tensor
    ) -> Tensor:
        log_sums = attend(qkv, heads, operation.compute, out)
        ctx.save_for_backward(qkv, out, log_sums)
        ctx.heads, ctx.operation, ctx.use = heads, operation, use
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
        qkv, out, log_sums = ctx.saved_tensors
        operation, use, (prompts, length, width_3) = ctx.operation, ctx.use, qkv.shape
        dqkv = operation.slot("dqkv", use, (prompts * length, width_3), qkv).view_as(qkv)
        count = prompts * triton.cdiv(length, tiles(operation.compute).rows)
        bias_sums = operation.slot("bias", use, (count, width_3), log_sums)
        _launch(
            attention_backward_kernel, qkv, ctx.heads, operation.compute,
            out, log_sums, dout, dqkv, bias_sums,
        )  # fmt: skip
        return dqkv, None, None, None, None
