"""The MLPs of the blocks, by the block's kind."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ..operations import linear, linear_gelu, squared_relu
from .spec import BlockSpec


class Mlp(nn.Module):
    """Expand, activate, contract: by GELU in its tanh form (gpt2), the square of ReLU (flt and
    relu2, So et al. 2021), or SiLU of one half times the other (llama, Shazeer 2020)."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.kind = spec.kind
        halves = 2 if spec.kind == "llama" else 1  # the gate, then the values
        self.expand = nn.Linear(spec.n_embd, halves * spec.n_hidden, bias=spec.biased)
        self.contract = nn.Linear(spec.n_hidden, spec.n_embd, bias=spec.biased)

    def forward(self, x: Tensor) -> Tensor:
        """The residual branch for the normed stream x [..., n_embd]."""
        return linear(self._hidden(x), self.contract)

    def _hidden(self, x: Tensor) -> Tensor:
        if self.kind == "gpt2":
            return linear_gelu(x, self.expand)
        hidden = linear(x, self.expand)
        if self.kind in ("flt", "relu2"):
            return squared_relu(hidden)
        gate, value = hidden.chunk(2, dim=-1)
        return F.silu(gate) * value
