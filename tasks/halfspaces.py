"""Halfspaces in context, on inputs like those of tables: any number of them, correlated."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .random_source import RandomSource
from .task import Classification, Prompts, register_task


@register_task("halfspaces")
@dataclass(frozen=True)
class Halfspaces(Classification):
    """y = 1 where w·x > t, else -1: w ~ N(0, I) scaled to length 1, t ~ N(0, threshold²).

    The last dimensions are visible, not the first. With `vary_features` a prompt has only f
    features, at random places, f uniform in 1..dims. Inputs share a factor: x_j = (z_j + u_j s) /
    sqrt(1 + u_j²) has variance 1. Of these z and s are standard normal for each pair, and u_j ~
    N(0, shared_factor²) for each prompt. In each prompt a share of labels is flipped, uniform in
    0..flips.

    Thresholds and flips grow from 0 at one visible dimension to their full size at all of them:
    without an easy beginning small models learn nothing.
    """

    vary_features: bool = False
    shared_factor: float = 0.0
    threshold: float = 0.0
    flips: float = 0.0
    left_padded = True

    def parameters(self, random: RandomSource, dims: int) -> tuple[Tensor, Tensor, Tensor]:
        """The mask of each prompt's features [B, d], 1 or 0; w [B, d]; t [B, 1]."""
        mask = self._feature_mask(random, dims)
        weights = random.normal(self.dims) * mask
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return mask, weights, self.threshold * self._growth(dims) * random.normal(1)

    def outputs(self, xs: Tensor, parameters: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        _, weights, thresholds = parameters
        values = (weights[:, None] @ xs.mT).squeeze(1)
        return torch.where(values > thresholds, 1.0, -1.0).float()

    def noise(self, ys: Tensor, random: RandomSource, dims: int) -> Tensor:
        share = self.flips * self._growth(dims) * random.uniform(1)
        return torch.where(random.uniform(ys.shape[1]) < share, -ys, ys)

    def prompts(self, parameters: Any, random: RandomSource, points: int, dims: int) -> Prompts:
        mask = parameters[0] * self._last(torch.full_like(parameters[0][:, :1], dims))
        z = random.normal(points, self.dims)
        s = random.normal(points, 1)
        u = self.shared_factor * random.normal(1, self.dims)
        # [B, n, d] from z [B, n, d], s [B, n, 1], u [B, 1, d]; z + u s has the variance 1 + u².
        xs = (z + u * s) / (1 + u.square()).sqrt() * mask[:, None]
        return Prompts(xs, self.noise(self.outputs(xs, parameters), random, dims))

    def _feature_mask(self, random: RandomSource, dims: int) -> Tensor:
        uniform = random.uniform(1)
        keys = random.uniform(self.dims)
        visible = self._last(torch.full_like(uniform, dims))
        if not self.vary_features:
            return visible
        # The places with the largest of independent keys are a uniformly random subset.
        # Visible places have keys above 1, so that all of them rank before the hidden ones.
        ranks = (keys + visible).argsort(1, descending=True).argsort(1)
        return (ranks <= (uniform * dims).long()).float()

    def _last(self, counts: Tensor) -> Tensor:
        """1 in the last counts [B, 1] places of [B, self.dims], else 0."""
        places = torch.arange(self.dims, 0, -1, device=counts.device)
        return (places <= counts).float()

    def _growth(self, dims: int) -> float:
        return (dims - 1) / max(1, self.dims - 1)
