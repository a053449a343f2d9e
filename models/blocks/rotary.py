"""Rotary position embedding (Su et al. 2021): pairs of a head's numbers rotate by position.

cos, sin = rotation(positions, head_size, torch.float32)
queries = rotate(queries, cos, sin)             # of models.operations, [B, S, heads, head_size]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_BASE = 1e4


def rotation(positions: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines [S, 1, size] for positions [S]: numbers i and i + size / 2 of a head rotate
    by position / 10⁴^(2i / size). At least in float32: bfloat16 rounds positions beyond 256."""
    dtype = torch.promote_types(dtype, torch.float32)
    pairs = torch.arange(size // 2, device=positions.device, dtype=dtype)
    angles = positions.to(dtype)[:, None, None] * torch.exp(pairs * (-2 * math.log(_BASE) / size))
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()
