"""Causal attention in bfloat16 on a CPU, forward and backward.

PyTorch's own backward pass in bfloat16 is several times slower than in float32. Here the queries
are taken in blocks, each multiplied with the keys that it may see, for a few prompts at once, so
that their scores stay in the cache. Scores and softmax are in float32, other products in bfloat16.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_BLOCK = 48  # queries at once
_MATRICES = 128  # of scores at once: prompts times heads


def attend_causally(heads: Tensor) -> Tensor:
    """Causal softmax attention of queries, keys and values [3, B, heads, S, size] in bfloat16: [B,
    heads, S, size]. Gradients have no derivative of their own."""
    if torch.is_grad_enabled() and heads.requires_grad:
        return _Attention.apply(heads)  # type: ignore[no-untyped-call]
    return _forward(heads)[0]


class _Attention(torch.autograd.Function):
    """The weights of all keys, in bfloat16, are kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor) -> Tensor:
        mixed, weights = _forward(heads, keep=True)
        ctx.save_for_backward(heads, mixed, *weights)
        return mixed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        heads, mixed, *weights = ctx.saved_tensors
        return _backward(heads, mixed, weights, gradient)


def _forward(heads: Tensor, keep: bool = False) -> tuple[Tensor, list[Tensor]]:
    """The mixed values, stored by token, and with `keep` the weights [prompts · heads, queries,
    keys] of each block of queries of each chunk of prompts."""
    _, batch, number, length, size = heads.shape
    # [B, heads, S, size] in the memory order of [B, S, heads, size]: joining heads is then free.
    mixed = heads.new_empty(batch, length, number, size).transpose(1, 2)
    kept: list[Tensor] = []
    with torch.autocast("cpu", enabled=False):
        for chunk in _chunks(heads):
            query, key = (_matrices(part, torch.float32) for part in heads[:2, chunk])
            # In place: these float32 matrices are copies of the heads.
            query *= 1 / math.sqrt(size)
            value = _matrices(heads[2, chunk])
            for first, end in _blocks(length):
                # [prompts · heads, end - first, end]: no keys after the block's last query.
                scores = torch.bmm(query[:, first:end], key[:, :end].mT)
                # Only the block's own square has pairs in which the key comes after the query.
                later = scores.new_full((end - first, end - first), -math.inf).triu_(1)
                scores[:, :, first:] += later
                weights = torch.softmax(scores, -1, out=scores).to(value.dtype)
                block = torch.bmm(weights, value[:, :end])
                mixed[chunk, :, first:end] = block.unflatten(0, (-1, number))
                if keep:
                    kept.append(weights)
    return mixed, kept


def _backward(heads: Tensor, mixed: Tensor, kept: list[Tensor], gradient: Tensor) -> Tensor:
    """The gradient of the heads, in their layout. That of a score is its weight times the product
    of value and gradient less that of the mixed value and gradient."""
    _, _, number, length, size = heads.shape
    result, scale = torch.empty_like(heads), 1 / math.sqrt(size)
    weights_of_block = iter(kept)
    for chunk in _chunks(heads):
        query, key, value, outer = map(_matrices, (*heads[:, chunk], gradient[chunk]))
        # D = rowsum(dO ∘ O) of FlashAttention-2 (arXiv 2307.08691), for dS = P ∘ (dO Vᵀ − D).
        mean = (outer.float() * mixed[chunk].flatten(0, 1)).sum(-1, keepdim=True)
        # Two more numbers per token let one product subtract D: it in two parts, as bfloat16 has
        # eight bits, beside values of one.
        high = mean.to(outer.dtype)
        outer_and_mean = torch.cat((outer, -high, (high - mean).to(outer.dtype)), dim=-1)
        ones = value.new_ones(*value.shape[:-1], 2)
        value_and_ones = torch.cat((value, ones), dim=-1).mT
        d_query, d_key, d_value = (torch.zeros_like(part) for part in (query, key, value))
        for first, end in _blocks(length):
            weights = next(weights_of_block)
            rows = slice(first, end)
            d_scores = torch.bmm(outer_and_mean[:, rows], value_and_ones[:, :, :end]).mul_(weights)
            d_query[:, rows] = torch.bmm(d_scores, key[:, :end])
            d_key[:, :end] += torch.bmm(d_scores.mT, query[:, rows])
            d_value[:, :end] += torch.bmm(weights.mT, outer[:, rows])
        # The score is q·k/√size, but `query` is unscaled here: both gradients still lack 1/√size.
        parts = (d_query.mul_(scale), d_key.mul_(scale), d_value)
        for part, d_part in zip(result[:, chunk], parts, strict=True):
            part.copy_(d_part.unflatten(0, (-1, number)))
    return result


def _matrices(part: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A contiguous [prompts · heads, S, size] of [prompts, heads, S, size]."""
    return part.to(dtype or part.dtype, memory_format=torch.contiguous_format).flatten(0, 1)


def _chunks(heads: Tensor) -> Iterator[slice]:
    """The prompts that are computed at once."""
    batch, number = heads.shape[1:3]
    step = max(1, _MATRICES // number)
    return (slice(first, first + step) for first in range(0, batch, step))


def _blocks(length: int) -> list[tuple[int, int]]:
    """First and end of each block of queries; the last is half to one and a half of the others."""
    firsts = [*range(0, max(length - _BLOCK // 2, 1), _BLOCK)]
    return list(zip(firsts, [*firsts[1:], length], strict=True))
