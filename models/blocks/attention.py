"""The kinds of attention: with as many heads of keys as of queries, with fewer (grouped), from a
latent (Multi-head Latent Attention), and within a sliding window."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..operations import current
from .norms import free_norm, make_norm
from .spec import BlockSpec


def rotation(
    positions: Tensor, size: int, dtype: torch.dtype, base: float = 1e4
) -> tuple[Tensor, Tensor]:
    """Cosines and sines [S, 1, size] of rotary position embedding (Su et al. 2021) for positions
    [S]: numbers i and i + size / 2 of a head rotate by position / base^(2i / size). At least in
    float32: bfloat16 rounds positions beyond 256."""
    dtype = torch.promote_types(dtype, torch.float32)
    # base^(−2i / size) as exp(−2i log(base) / size); angles are [S, 1, size / 2], the 1 for heads.
    pairs = torch.arange(size // 2, device=positions.device, dtype=dtype)
    angles = positions.to(dtype)[:, None, None] * torch.exp(pairs * (-2 * math.log(base) / size))
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def attend_heads(heads: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of queries, keys and values [3, B, heads, S, size]: [B, S, heads · size]."""
    return current().attend(heads, mask).transpose(1, 2).flatten(2)


def read_both(x: Tensor, memory: Tensor | None, layer: nn.Linear, first: int) -> Tensor:
    """layer(x) [B, S, out], but the first outputs (the queries) are those of `memory` where it is
    given."""
    if memory is None:
        return current().linear(x, layer)
    # By F.linear on rows of the fused matrix: the backends' `linear` takes a whole layer.
    weights = layer.weight.split((first, len(layer.weight) - first))
    biases = (None, None) if layer.bias is None else layer.bias.split([len(w) for w in weights])
    parts = zip((memory, x), weights, biases, strict=True)
    return torch.cat([F.linear(*part) for part in parts], dim=-1)


class Attention(nn.Module, ABC):
    """The base class: rotation, window, softmax and the projection back to the stream; of a
    sandwich also biases of queries and keys, [n_head + kv_heads, size]."""

    projection: nn.Linear
    qk_bias: nn.Parameter | None

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__()
        self.spec = spec
        self.window = spec.window(layer)
        self.register_parameter("qk_bias", None)
        if spec.kind == "sandwich":
            self.qk_bias = nn.Parameter(torch.empty(spec.n_head + spec.kv_heads, spec.head_size))

    @abstractmethod
    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries and keys concatenated, [B, S, n_head + kv_heads, size], and values, [B, S,
        kv_heads, size], before rotation; queries from `memory` where it is given."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        positions: Tensor | None,
        mask: Tensor | None,
        tokens: slice,
    ) -> Tensor:
        """The residual branch at these tokens for the normed stream x [B, S, n_embd]; queries from
        `memory` [B, S, n_embd], where given. Tokens have `positions` [S], or 0 .. S - 1."""
        spec = self.spec
        length = x.shape[1]
        qk, value = self.read(x, memory)
        if self.qk_bias is not None:
            qk = qk + self.qk_bias
        if positions is None:
            positions = torch.arange(length, device=x.device)
        if spec.rotary:
            angles = rotation(positions, spec.head_size, qk.dtype, spec.rope_base)
            qk = current().rotate(qk, *angles)
        if spec.normed_heads:
            qk = free_norm(spec.kind, qk)
        # Rotated by float32 angles, queries and keys are float32: `stack` would promote values too.
        query, key = qk.to(value.dtype).split((spec.n_head, spec.kv_heads), dim=2)
        if spec.kv_heads != spec.n_head:
            group = spec.n_head // spec.kv_heads
            key, value = (part.repeat_interleave(group, dim=2) for part in (key, value))
        # [3, B, S, heads, size] → [3, B, heads, S, size].
        heads = torch.stack((query, key, value)).transpose(2, 3)
        mixed = attend_heads(heads, self._window_mask(positions, mask))
        # Every token is a key, so that tokens which nobody reads are dropped only after attention.
        return current().linear(mixed[:, tokens], self.projection)

    def _window_mask(self, positions: Tensor, mask: Tensor | None) -> Tensor | None:
        """The mask [S, S], restricted to the window where there is one. With tokens before these a
        mask has a column for each token so far."""
        if self.window is None:
            return mask
        keys = positions
        if mask is not None and mask.shape[1] > len(positions):
            keys = torch.arange(mask.shape[1], device=positions.device)
        # [S, keys]. Differences to later tokens are below 0, hence near; the next line drops them.
        near = positions[:, None] - keys < self.window
        return near.tril() if mask is None else near & mask


class HeadAttention(Attention):
    """Multi-head attention (Vaswani et al. 2017), with `kv_heads` heads of keys and values (Ainslie
    et al. 2023): query head i reads key head i · kv_heads // n_head."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__(spec, layer)
        width = (spec.n_head + 2 * spec.kv_heads) * spec.head_size
        self.qkv = nn.Linear(spec.n_embd, width, bias=spec.biased)
        self.projection = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)

    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        spec = self.spec
        heads = read_both(x, memory, self.qkv, spec.n_embd).unflatten(-1, (-1, spec.head_size))
        qk, value = heads.split((spec.n_head + spec.kv_heads, spec.kv_heads), dim=2)
        return qk, value


class LatentAttention(Attention):
    """Multi-head latent attention (DeepSeek-V2, 2024), with the rotation after the expansion (arXiv
    2605.18797): keys and values of all heads are read from `rank` normed numbers per token."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.query = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)
        self.down = nn.Linear(spec.n_embd, spec.rank, bias=spec.biased)
        self.norm = make_norm(spec.kind, spec.rank)
        self.up = nn.Linear(spec.rank, 2 * spec.n_embd, bias=spec.biased)
        self.projection = nn.Linear(spec.n_embd, spec.n_embd, bias=spec.biased)

    def read(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        query = current().linear(x if memory is None else memory, self.query)
        latent = current().linear(x, self.down).to(x.dtype)  # normed in the stream's precision
        key, value = current().linear(self.norm(latent), self.up).chunk(2, dim=-1)
        size = (-1, self.spec.head_size)
        # Queries first, as in a fused `qkv`: [B, S, 2 n_embd] → [B, S, 2 heads, size].
        return torch.cat((query, key), dim=-1).unflatten(-1, size), value.unflatten(-1, size)


def make_attention(spec: BlockSpec, layer: int) -> Attention:
    """The attention of layer `layer` (counted from 0) of a stack."""
    return (LatentAttention if spec.attention == "latent" else HeadAttention)(spec, layer)
