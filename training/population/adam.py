"""Adam on rows of parameters, each row with a learning rate of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class BatchedAdam:
    """Adam (Kingma and Ba 2015) with bias correction, for weights [members, parameters]."""

    def __init__(
        self, weights: Tensor, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
    ) -> None:
        self.weights, self.betas, self.epsilon = weights, (beta1, beta2), epsilon
        self.mean = torch.zeros_like(weights, requires_grad=False)
        self.square = torch.zeros_like(self.mean)

    @torch.no_grad()
    def update(self, step: int, gradient: Tensor, rates: Tensor) -> None:
        """Update number `step` (counted from 0, the same for all members) by gradients [members,
        parameters] at rates [members]; a member whose gradient is 0 and rate 0 stays."""
        beta1, beta2 = self.betas
        self.mean.lerp_(gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = self.square.sqrt().div_(math.sqrt(1 - beta2 ** (step + 1))).add_(self.epsilon)
        rates = rates / (1 - beta1 ** (step + 1))
        self.weights.sub_(rates[:, None] * self.mean / root)
