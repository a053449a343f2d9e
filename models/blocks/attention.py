"""Attention in its kinds: with as many heads of keys as of queries, with fewer (grouped), from a
latent (Multi-head Latent Attention), and within a sliding window."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..operations import attend, linear
from .norms import free_norm, make_norm
from .rotary import rotate, rotation
from .spec import BlockSpec


def attend_heads(heads: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of queries, keys and values [3, B, heads, S, size]: [B, S, heads · size]."""
    query, key, value = heads.unbind(0)
    return attend(query, key, value, mask).transpose(1, 2).flatten(2)


def read_both(x: Tensor, memory: Tensor | None, layer: nn.Linear, first: int) -> Tensor:
    """layer(x) [B, S, out], the first outputs (the queries) of `memory` instead where it is
    given."""
    if memory is None:
        return linear(x, layer)
    weights = layer.weight.split((first, len(layer.weight) - first))
    biases = (None, None) if layer.bias is None else layer.bias.split([len(w) for w in weights])
    parts = zip((memory, x), weights, biases, strict=True)
    return torch.cat([F.linear(*part) for part in parts], dim=-1)


class Attention(nn.Module, ABC):
    """What all kinds share: rotation, window, softmax and the projection back to the stream."""

    projection: nn.Linear

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__()
        self.spec = spec
        self.window = spec.window(layer)

    @abstractmethod
    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries and then keys [B, S, n_head + kv_heads, size], and values [B, S, kv_heads, size],
        before rotation; queries from `memory` where it is given."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        positions: Tensor | None,
        mask: Tensor | None,
        tokens: slice,
    ) -> Tensor:
        """What the normed stream x [B, S, n_embd] gets at these tokens; queries come from `memory`
        [B, S, n_embd], where given. Tokens stand at `positions` [S], or one after another."""
        spec, length = self.spec, x.shape[1]
        asked, value = self.read(x, memory)
        if positions is None:
            positions = torch.arange(length, device=x.device)
        if spec.rotary:
            asked = rotate(asked, *rotation(positions, spec.head_size, asked.dtype))
        if spec.kind == "flt":
            asked = free_norm(asked)
        query, key = asked.to(value.dtype).split((spec.n_head, spec.kv_heads), dim=2)
        if spec.kv_heads != spec.n_head:
            each = spec.n_head // spec.kv_heads
            key, value = (part.repeat_interleave(each, dim=2) for part in (key, value))
        heads = torch.stack((query, key, value)).transpose(2, 3)
        mixed = attend_heads(heads, self._seen(positions, mask))
        return linear(mixed[:, tokens], self.projection)

    def _seen(self, positions: Tensor, mask: Tensor | None) -> Tensor | None:
        """The mask [S, S], within the window where there is one."""
        if self.window is None:
            return mask
        near = positions[:, None] - positions < self.window
        return near.tril() if mask is None else near & mask


class HeadAttention(Attention):
    """Multi-head attention (Vaswani et al. 2017), with fewer heads of keys and values where n_kv
    says so (Ainslie et al. 2023): query head i reads the head of keys i · n_kv // n_head."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__(spec, layer)
        width = (spec.n_head + 2 * spec.kv_heads) * spec.head_size
        self.qkv = nn.Linear(spec.n_embd, width, bias=spec.biased)
        self.projection = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)

    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        spec = self.spec
        heads = read_both(x, memory, self.qkv, spec.n_embd).unflatten(-1, (-1, spec.head_size))
        asked, value = heads.split((spec.n_head + spec.kv_heads, spec.kv_heads), dim=2)
        return asked, value


class LatentAttention(Attention):
    """Multi-head latent attention (DeepSeek-V2, 2024), with the rotation after the expansion (arXiv
    2605.18797): keys and values of all heads are read from `rank` normed numbers a token."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.query = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)
        self.down = nn.Linear(spec.n_embd, spec.rank, bias=spec.biased)
        self.norm = make_norm(spec.kind, spec.rank)
        self.up = nn.Linear(spec.rank, 2 * spec.n_embd, bias=spec.biased)
        self.projection = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)

    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        query = linear(x if memory is None else memory, self.query)
        latent = self.norm(linear(x, self.down).to(x.dtype))  # normed as exactly as the stream
        key, value = linear(latent, self.up).chunk(2, dim=-1)
        size = (-1, self.spec.head_size)
        return torch.cat((query, key), dim=-1).unflatten(-1, size), value.unflatten(-1, size)


def make_attention(spec: BlockSpec, layer: int) -> Attention:
    """The attention of layer `layer` (counted from 0) of a stack."""
    return (LatentAttention if spec.attention == "latent" else HeadAttention)(spec, layer)
