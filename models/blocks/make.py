"""Any block from its shape: norm, attention and MLP behind one signature.

block = make_block(BlockSpec(n_embd=256, n_head=8, kind="llama"), layer=0)
x = block(x, memory=h, positions=positions, mask=mask, scale=0.25)      # [B, S, n_embd]
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..operations import current
from ..queries import ALL_TOKENS
from .attention import make_attention
from .gpt2 import Block
from .norms import make_norm
from .spec import BlockSpec


class Mlp(nn.Module):
    """Expand, activate, contract: by GELU in its tanh form (gpt2), the square of ReLU (flt and
    relu2, So et al. 2021), or SiLU of one half times the other (a gate, Shazeer 2020)."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.kind = spec.kind
        halves = 2 if spec.gated else 1  # the gate, then the values
        self.expand = nn.Linear(spec.n_embd, halves * spec.n_hidden, bias=spec.biased)
        self.contract = nn.Linear(spec.n_hidden, spec.n_embd, bias=spec.biased)

    def forward(self, x: Tensor) -> Tensor:
        """The residual branch for the normed stream x [..., n_embd]."""
        return current().linear(self._hidden(x), self.contract)

    def _hidden(self, x: Tensor) -> Tensor:
        if self.kind == "gpt2":
            return current().linear_gelu(x, self.expand)
        hidden = current().linear(x, self.expand)
        if self.kind in ("flt", "relu2"):
            return current().squared_relu(hidden)
        gate, value = hidden.chunk(2, dim=-1)
        return F.silu(gate) * value


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
        """Does what `forward` of the GPT-2 block does. `positions` [S], int64, are those of the
        tokens for rotation and window; without them, 0 .. S - 1."""
        asked = None if memory is None else self._read(memory, self.norm_1)
        mixed = self.attention(self._read(x, self.norm_1), asked, positions, mask, tokens)
        # Attention has read all tokens; from here on each token is mapped by itself.
        x = self._added(x[:, tokens], mixed, scale, self.norm_1)
        return self._added(x, self.mlp(self._read(x, self.norm_2)), scale, self.norm_2)

    def _read(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What a branch reads of the stream."""
        return norm(x)

    def _added(self, x: Tensor, branch: Tensor, scale: float, norm: nn.Module) -> Tensor:
        """The stream with a branch added."""
        return torch.add(x, branch, alpha=scale)


class PostNormBlock(PreNormBlock):
    """The same pieces in another order: x ← norm(x + attention x), x ← norm(x + MLP x) (Vaswani et
    al. 2017)."""

    def _read(self, x: Tensor, norm: nn.Module) -> Tensor:
        return x

    def _added(self, x: Tensor, branch: Tensor, scale: float, norm: nn.Module) -> Tensor:
        return norm(torch.add(x, branch, alpha=scale))


class SandwichBlock(PreNormBlock):
    """The same pieces between norms: x ← norm(x + attention(norm x)), x ← norm(x + MLP(norm x)),
    each with a gain of its own (arXiv 2502.05171)."""

    def __init__(self, spec: BlockSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.norm_1_after = make_norm(spec.kind, spec.n_embd)
        self.norm_2_after = make_norm(spec.kind, spec.n_embd)

    def _added(self, x: Tensor, branch: Tensor, scale: float, norm: nn.Module) -> Tensor:
        # The norm before a branch tells which of the two branches this is.
        after = self.norm_1_after if norm is self.norm_1 else self.norm_2_after
        return after(torch.add(x, branch, alpha=scale))


def make_block(spec: BlockSpec, layer: int = 0) -> nn.Module:
    """The block of layer `layer` (counted from 0), uninitialised (see initialise_block). The GPT-2
    block with full attention, pre-norm and no width of its own is a class of its own, which the
    kernels support.

    Raises ValueError for a layer that the stack does not have.
    """
    if not 0 <= layer < spec.n_layer:
        raise ValueError(f"a stack of {spec.n_layer} layers has no layer {layer}")
    # A sandwich has no post-norm form (conf/checks/model.py), so this may come first.
    if spec.post_norm:
        return PostNormBlock(spec, layer)
    if spec.kind == "sandwich":
        return SandwichBlock(spec, layer)
    if (spec.kind, spec.attention, spec.hidden) == ("gpt2", "full", 0):
        return Block(spec.n_embd, spec.n_head)
    return PreNormBlock(spec, layer)
