"""The persistent loop's arithmetic in plain PyTorch, on any device: its divisions, its order of
sums and its rounding, so that they can be tested before the kernel is written.

state = run_prefix(loop, stream, e, Compute(torch.bfloat16), count=10, scale=1.0)

An element of a product does not depend on the tile that it is in, so tiles of rows and columns are
computed together; the sums over an inner size go by steps of 16, as in wgmma. The order inside a
step, and inside 16 features of a norm, is PyTorch's.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...blocks.gpt2 import Block
from ...loops.loop import LoopState, SharedLoop
from ..common import Compute
from .plan import GROUP, KEY_BLOCK, STEP, Plan

_LOG2_E = 1 / math.log(2)


class Share(NamedTuple):
    """Mean and sum of squared distances from it, over `size` features: [1, columns] each."""

    size: int
    mean: Tensor
    squares: Tensor


@torch.no_grad()
def run_prefix(
    loop: SharedLoop,
    stream: Tensor,
    e: Tensor,
    compute: Compute,
    count: int,
    scale: float,
    plan: Plan | None = None,
) -> LoopState:
    """As `models.kernels.segment.run_prefix`: `count` steps of a GPT-2 loop on stream [B, S, D],
    all results in its dtype, operands rounded to that of `compute`. By the plan for two CTAs a
    prompt that divide its tokens, unless another one is given (its `prompts` changes no number).

    Raises ValueError for a shape that the plan refuses.
    """
    blocks = cast("list[Block]", list(loop.blocks))
    plan = plan or Plan(stream.shape[1], stream.shape[2], blocks[0].n_head)
    if reason := plan.why_not():
        raise ValueError(f"no persistent loop: {reason}")
    assert loop.positions is not None  # GPT-2 blocks are not rotary
    positions = loop.positions[: stream.shape[1]].expand_as(stream)
    prompts = stream.shape[0]
    x, e, positions = (divide(part.to(stream.dtype), plan) for part in (stream, e, positions))
    norm = cast(nn.LayerNorm, loop.norm)
    layers = [_Layer(block, compute.dtype, scale, plan) for block in blocks]
    for step in range(count):
        y = normalise(x, norm, plan) if step else x
        x = _inject(loop.injection, y, e, positions)
        for layer in layers:
            x = layer.run(x, prompts)
    ends = (collect(part, prompts, plan) for part in (normalise(x, norm, plan), x))
    return LoopState(*ends)


def divide(stream: Tensor, plan: Plan) -> Tensor:
    """[B, S, D] as [D, columns of all CTAs]: CTA by CTA, then prompt by prompt. CTAs take groups of
    eight tokens in turn; padding is zero."""
    padded = F.pad(stream, (0, 0, 0, plan.own * plan.tokens - plan.length))
    groups = padded.unflatten(1, (plan.own // GROUP, plan.tokens, GROUP))
    return groups.permute(4, 2, 0, 1, 3).flatten(1)


def collect(columns: Tensor, prompts: int, plan: Plan) -> Tensor:
    """[D, columns of all CTAs] as [B, S, D] again."""
    groups = columns.unflatten(1, (plan.tokens, prompts, plan.own // GROUP, GROUP))
    return groups.permute(2, 3, 1, 4, 0).flatten(1, 3)[:, : plan.length]


def merge(shares: list[Share]) -> Share:
    """Equal shares of features as one: no difference of large squares, and one exchange. (Chan,
    Golub and LeVeque 1983.)"""
    size, count = shares[0].size, len(shares)
    mean = torch.stack([share.mean for share in shares]).sum(0) / count
    squares = torch.zeros_like(mean)
    for share in shares:
        squares = squares + share.squares + size * (share.mean - mean).square()
    return Share(count * size, mean, squares)


def normalise(x: Tensor, norm: nn.LayerNorm, plan: Plan) -> Tensor:
    """LayerNorm over the features of x [D, columns]: the statistics of 16 features, merged in a
    CTA, then over the CTAs that divide the features."""
    ctas = []
    for own in x.chunk(plan.features):
        slices = []
        for part in own.split(STEP):
            mean = part.mean(0, keepdim=True)
            slices.append(Share(STEP, mean, (part - mean).square().sum(0, keepdim=True)))
        ctas.append(merge(slices))
    _, mean, squares = merge(ctas)
    normal = (x - mean) * torch.rsqrt(squares / len(x) + norm.eps)
    return normal * _column(norm.weight, x) + _column(norm.bias, x)


def product(a: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """start + a [..., M, K] @ b [..., K, N] with at most one leading axis, by steps of 16 of K."""
    add_product = torch.addmm if a.dim() == 2 else torch.baddbmm
    sums = start
    for left, right in zip(a.split(STEP, -1), b.split(STEP, -2), strict=True):
        sums = add_product(sums, left, right)
    return sums


def add_partial(partial: list[Tensor]) -> Tensor:
    """The sum of the CTAs' partial sums, in the order of their ranks."""
    total = partial[0]
    for part in partial[1:]:
        total = total + part
    return total


def all_tokens(heads: Tensor, prompts: int, plan: Plan) -> Tensor:
    """Keys or values [D, columns of all CTAs] as each CTA holds them after the exchange: [B x
    heads, keys, size], in the prompt's order, with padding."""
    tokens = collect(heads, prompts, plan)
    tokens = F.pad(tokens, (0, 0, 0, plan.keys - plan.length))
    return tokens.unflatten(2, (plan.heads, -1)).transpose(1, 2).flatten(0, 1)


class _Layer:
    """A block's operands, and its computation."""

    def __init__(self, block: Block, dtype: torch.dtype, scale: float, plan: Plan) -> None:
        self.block, self.dtype, self.scale, self.plan = block, dtype, scale, plan

    def run(self, x: Tensor, prompts: int) -> Tensor:
        """The stream [D, columns of all CTAs] after the layer."""
        plan, scale = self.plan, self.scale
        a = self._round(normalise(x, self.block.norm_1, plan))
        query, key, value = self._linear(self.block.qkv, a).chunk(3)
        mixed = self._attend(query, key, value, prompts)
        x = product(self._weight(self.block.projection, x), mixed, x / scale)
        x = (x + _column(self.block.projection.bias, x)) * scale

        b = self._round(normalise(x, self.block.norm_2, plan))
        hidden = F.gelu(self._linear(self.block.expand, b, keep=True), approximate="tanh")
        hidden = self._round(hidden)
        weight = self._weight(self.block.contract, x)
        partial = [
            product(w, units, self._own_rows(x / scale, rank))
            for rank, (w, units) in enumerate(
                zip(weight.chunk(plan.features, 1), hidden.chunk(plan.features), strict=True)
            )
        ]
        return (add_partial(partial) + _column(self.block.contract.bias, x)) * scale

    def _own_rows(self, x: Tensor, rank: int) -> Tensor:
        """x at the features of the CTA of this rank, where its sums start; zero elsewhere."""
        own = self.plan.own_features
        start = torch.zeros_like(x)
        start[rank * own : (rank + 1) * own] = x[rank * own : (rank + 1) * own]
        return start

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, prompts: int) -> Tensor:
        """The mixed heads [D, columns of all CTAs], rounded. Softmax is taken online over blocks of
        64 keys; its weights are rounded for the product, not for their sum."""
        plan = self.plan
        queries, keys, values = (all_tokens(part, prompts, plan) for part in (query, key, value))
        rows = torch.arange(plan.keys, device=query.device)[:, None]
        factor = _LOG2_E / math.sqrt(plan.width // plan.heads)
        highest = torch.full_like(queries[..., :1], -math.inf)
        total, mixed = torch.zeros_like(highest), torch.zeros_like(queries)
        for at in range(0, plan.keys, KEY_BLOCK):
            part = slice(at, min(at + KEY_BLOCK, plan.keys))
            some_keys = keys[:, part].mT
            zeros = queries.new_zeros(len(queries), plan.keys, some_keys.shape[2])
            scores = factor * product(queries, some_keys, zeros)
            seen = torch.arange(part.start, part.stop, device=query.device) <= rows
            scores = scores.masked_fill(~seen, -math.inf)
            higher = torch.maximum(highest, scores.amax(-1, keepdim=True))
            shrink, weights = torch.exp2(highest - higher), torch.exp2(scores - higher)
            total = total * shrink + weights.sum(-1, keepdim=True)
            mixed = product(self._round(weights), values[:, part], mixed * shrink)
            highest = higher
        heads = (mixed / total).unflatten(0, (prompts, plan.heads)).transpose(1, 2).flatten(2)
        return self._round(divide(heads[:, : plan.length], plan))

    def _linear(self, layer: nn.Linear, operand: Tensor, keep: bool = False) -> Tensor:
        """The layer's outputs [M, columns], rounded unless `keep`."""
        weight = self._weight(layer, operand)
        zeros = operand.new_zeros(len(weight), operand.shape[1])
        sums = product(weight, operand, zeros) + _column(layer.bias, operand)
        return sums if keep else self._round(sums)

    def _weight(self, layer: nn.Linear, like: Tensor) -> Tensor:
        return layer.weight.detach().to(self.dtype).to(like.dtype)

    def _round(self, x: Tensor) -> Tensor:
        """x, rounded to an operand; returned in its own dtype, in which products are exact."""
        return x.to(self.dtype).to(x.dtype)


def _inject(injection: str, y: Tensor, e: Tensor, positions: Tensor) -> Tensor:
    if injection == "add":  # e has the positions already
        return y + e
    return torch.addcmul(positions, y, e) if injection == "multiply" else y + positions


def _column(parameter: Tensor, like: Tensor) -> Tensor:
    return parameter.detach().to(like.dtype)[:, None]
