"""Two-layer ReLU networks in context (Garg et al. 2022, section 3.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from .random_source import RandomSource
from .task import Task, register_task


@register_task("relu_network")
@dataclass(frozen=True)
class ReluNetwork(Task):
    """y = sqrt(2 / hidden) · relu(x W₁) w₂ with standard normal weights; the variance of y is d."""

    hidden: int = 100

    @property
    def divisor(self) -> float:
        return self.dims

    def parameters(self, random: RandomSource, dims: int) -> tuple[Tensor, Tensor]:
        """W₁ [B, d, hidden] and w₂ [B, hidden]."""
        return random.normal(self.dims, self.hidden), random.normal(self.hidden)

    def outputs(self, xs: Tensor, parameters: tuple[Tensor, Tensor]) -> Tensor:
        first, second = parameters
        hidden = (xs @ first).relu_()
        return math.sqrt(2 / self.hidden) * (hidden @ second[:, :, None]).squeeze(2)
