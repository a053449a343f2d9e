"""The norms of the blocks, by the block's kind."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

_EPS = 1e-5  # under the root, for GPT-2 and Llama
_FREE_EPS = 2.0**-23  # PyTorch's for float32, for every dtype: the norm is idempotent


def make_norm(kind: str, width: int) -> nn.Module:
    """LayerNorm for gpt2, RMSNorm with a learned gain for llama, without parameters for flt."""
    if kind == "gpt2":
        return nn.LayerNorm(width, eps=_EPS)
    if kind == "llama":
        return nn.RMSNorm(width, eps=_EPS)
    return nn.RMSNorm(width, eps=_FREE_EPS, elementwise_affine=False)


def free_norm(x: Tensor) -> Tensor:
    """x [..., width] over the root of its mean square."""
    return F.rms_norm(x, x.shape[-1:], eps=_FREE_EPS)
