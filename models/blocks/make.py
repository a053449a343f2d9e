"""Any block from its shape: norm, attention and MLP behind one signature.

block = make_block(BlockSpec(n_embd=256, n_head=8, kind="llama"), layer=0)
x = block(x, memory=h, positions=positions, mask=mask, scale=0.25)      # [B, S, n_embd]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..queries import ALL_TOKENS
from .attention import make_attention
from .gpt2 import Block
from .mlps import Mlp
from .norms import make_norm
from .spec import BlockSpec


class PreNormBlock(nn.Module):
    """One transformer layer of separate pieces: x ← x + attention(norm x), x ← x + MLP(norm x)."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__()
        self.norm_1 = make_norm(spec.kind, spec.n_embd)
        self.attention = make_attention(spec, layer)
        self.norm_2 = make_norm(spec.kind, spec.n_embd)
        self.mlp = Mlp(spec)

    def forward(
        self,
        x: Tensor,
        *,
        memory: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
    ) -> Tensor:
        """As `forward` of the GPT-2 block. `positions` [S], int64, are those of the tokens for
        rotation and window; without them, 0 .. S - 1."""
        normed_memory = None if memory is None else self.norm_1(memory)
        mixed = self.attention(self.norm_1(x), normed_memory, positions, mask, tokens)
        x = torch.add(x[:, tokens], mixed, alpha=scale)
        return torch.add(x, self.mlp(self.norm_2(x)), alpha=scale)


def make_block(spec: BlockSpec, layer: int = 0) -> nn.Module:
    """The block of layer `layer` (counted from 0), uninitialised (see initialise_block). The GPT-2
    block with full attention is a class of its own, which the kernels support.

    Raises ValueError for a layer that the stack does not have.
    """
    if not 0 <= layer < spec.n_layer:
        raise ValueError(f"a stack of {spec.n_layer} layers has no layer {layer}")
    if (spec.kind, spec.attention) == ("gpt2", "full"):
        return Block(spec.n_embd, spec.n_head)
    return PreNormBlock(spec, layer)
