"""Halfspaces in context: which side of a hyperplane a row of a table lies on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .classification import Classification
from .draws import Draws
from .tabular import Tabular
from .task import register


@register("halfspaces")
@dataclass(frozen=True)
class Halfspaces(Tabular, Classification):
    """y = 1 where w·x > t, else -1: w ~ N(0, I) scaled to length 1, t ~ N(0, threshold²).

    In each prompt a share of labels is flipped, uniform in 0..flips. Thresholds and flips grow
    with the visible dimensions (`grown`).
    """

    threshold: float = 0.0
    flips: float = 0.0
    baselines = ("nearest_neighbours", "least_squares")

    def parameters(self, draws: Draws, dims: int) -> tuple[Tensor, Tensor, Tensor]:
        """The features shown [B, d], w [B, d] and t [B, 1]."""
        shown = self.shown(draws, dims)
        weights = draws.normal(self.dims) * shown
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return shown, weights, self.threshold * self.grown(dims) * draws.normal(1)

    def outputs(self, xs: Tensor, parameters: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        _, weights, thresholds = parameters
        values = (weights[:, None] @ xs.mT).squeeze(1)
        return torch.where(values > thresholds, 1.0, -1.0)

    def noise(self, ys: Tensor, draws: Draws, dims: int) -> Tensor:
        share = self.flips * self.grown(dims) * draws.uniform(1)
        return torch.where(draws.uniform(ys.shape[1]) < share, -ys, ys)
