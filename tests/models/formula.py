"""The models written out from elementary operations, for any dtype and with gradients.

Weights come as a mapping from the names in `model.named_parameters()`; nothing of `models` is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tests.models.small import Batch

Weights = Mapping[str, Tensor]


class Shape(NamedTuple):
    """What the weights alone do not say."""

    family: str
    injection: str
    n_layer: int
    n_head: int


def layer_norm(x: Tensor, p: Weights, name: str) -> Tensor:
    """Centred, divided by the standard deviation (with 1e-5 under the root), scaled and shifted."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    variance = (centred * centred).sum(-1, keepdim=True) / x.shape[-1]
    return centred / torch.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(x: Tensor, p: Weights, name: str) -> Tensor:
    """x Wᵀ + c."""
    return torch.einsum("...i,oi->...o", x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def attention(x: Tensor, p: Weights, name: str, n_head: int) -> Tensor:
    """Softmax attention to oneself and what stands before, head by head."""
    length, width = x.shape[1:]
    size = width // n_head
    query, key, value = linear(x, p, f"{name}.qkv").split(width, dim=-1)
    future = torch.ones(length, length).triu(1).bool()
    heads = []
    for h in range(n_head):
        part = slice(h * size, (h + 1) * size)
        scores = torch.einsum("bid,bjd->bij", query[..., part], key[..., part]) / math.sqrt(size)
        weights = torch.exp(scores).masked_fill(future, 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        heads.append(torch.einsum("bij,bjd->bid", weights, value[..., part]))
    return linear(torch.cat(heads, dim=-1), p, f"{name}.projection")


def block(x: Tensor, p: Weights, name: str, n_head: int) -> Tensor:
    """x + attention(LN x), then + MLP(LN x) with the tanh form of GELU."""
    x = x + attention(layer_norm(x, p, f"{name}.norm_1"), p, name, n_head)
    h = linear(layer_norm(x, p, f"{name}.norm_2"), p, f"{name}.expand")
    h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return x + linear(h, p, f"{name}.contract")


def read_in(prompts: Batch, p: Weights) -> Tensor:
    """e [B, 2n, D] of the tokens x₁, (y₁, 0, …), x₂, (y₂, 0, …), …"""
    tokens = []
    for i in range(prompts.xs.shape[1]):
        y = prompts.ys[:, i, None]
        tokens += [prompts.xs[:, i], torch.cat((y, 0 * prompts.xs[:, i, 1:]), dim=-1)]
    return linear(torch.stack(tokens, dim=1), p, "read_in")


def streams(
    prompts: Batch, p: Weights, shape: Shape, loops: int, detach_at: int = 0
) -> list[Tensor]:
    """What the read-out reads after each of `loops` loops, [B, 2n, D]; a standard model's loops are
    its layers. The state is cut from its past before loop `detach_at`, where that is not 0."""
    e = read_in(prompts, p)
    positions = p["loop.positions"][: e.shape[1]]
    starts = {"add": 0 * e.detach(), "multiply": 0 * e.detach() + 1, "none": e}
    y = starts[shape.injection]
    if shape.family == "standard":
        y = y + positions
    kept = []
    for t in range(loops):
        if detach_at and t == detach_at:
            y = y.detach()
        if shape.family == "standard":
            y = block(y, p, f"loop.blocks.{t}", shape.n_head)
            kept.append(layer_norm(y, p, "loop.norm"))
            continue
        z = {"add": y + e, "multiply": y * e, "none": y}[shape.injection] + positions
        for layer in range(shape.n_layer):
            z = block(z, p, f"loop.blocks.{layer}", shape.n_head)
        y = layer_norm(z, p, "loop.norm")
        kept.append(y)
    return kept


def predict(stream: Tensor, p: Weights) -> Tensor:
    """Predictions [B, n], read at the inputs' tokens."""
    return linear(stream, p, "read_out")[:, 0::2, 0]
