"""Inputs such as tables have: any number of features, which go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .draws import Draws
from .prompts import Prompts
from .task import Task


@dataclass(frozen=True)
class Tabular(Task):
    """A task whose prompts differ in their inputs as tables do.

    Visible are the last dimensions, not the first: the first is also where the y token has its
    number. With `vary_features` a prompt has only f of them, anywhere, f uniform in 1..dims. Inputs
    share a factor: x_j = (z_j + u_j s) / sqrt(1 + u_j²) with standard normal z and s for each pair
    and u_j ~ N(0, shared_factor²) for each prompt; all have variance 1.
    """

    vary_features: bool = False
    shared_factor: float = 0.0
    left_padded = True

    def shown(self, draws: Draws, dims: int) -> Tensor:
        """1 where a prompt has a feature, else 0: [B, self.dims]."""
        drawn, keys = draws.uniform(1), draws.uniform(self.dims)
        visible = self._last(torch.full_like(drawn, dims))
        if not self.vary_features:
            return visible
        # The places with the largest of independent keys are a uniformly random subset.
        ranks = (keys + visible).argsort(1, descending=True).argsort(1)
        return (ranks <= (drawn * dims).long()).float()

    def grown(self, dims: int) -> float:
        """What makes a task hard is there from the second visible dimension on, and in full when
        all are visible: without an easy beginning small models learn nothing."""
        return (dims - 1) / max(1, self.dims - 1)

    def prompts(self, parameters: Any, draws: Draws, points: int, dims: int) -> Prompts:
        """The first of `parameters` says what is shown [B, self.dims]."""
        shown = parameters[0] * self._last(torch.full_like(parameters[0][:, :1], dims))
        own, common = draws.normal(points, self.dims), draws.normal(points, 1)
        loads = self.shared_factor * draws.normal(1, self.dims)
        xs = (own + loads * common) / (1 + loads.square()).sqrt() * shown[:, None]
        return Prompts(xs, self.noise(self.outputs(xs, parameters), draws, dims))

    def _last(self, counts: Tensor) -> Tensor:
        """1 in the last counts [B, 1] places of [B, self.dims], else 0."""
        places = torch.arange(self.dims, 0, -1, device=counts.device)
        return (places <= counts).float()
