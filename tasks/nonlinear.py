"""Two-layer ReLU networks and decision trees in context (Garg et al. 2022, section 3.3)."""

import math
from dataclasses import dataclass

import torch
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
        # [B, n, hidden]. A ReLU halves the mean square d, hence √(2 / hidden) for a variance of d.
        hidden = (xs @ first).relu_()
        return math.sqrt(2 / self.hidden) * (hidden @ second[:, :, None]).squeeze(2)


@register_task("decision_tree")
@dataclass(frozen=True)
class DecisionTree(Task):
    """A full binary tree: inner nodes test the sign of one coordinate, leaves hold N(0, 1).

    Nodes are numbered as a heap; a positive coordinate goes right. Coordinates are drawn uniformly
    from the visible dimensions.
    """

    depth: int = 4
    baselines = (
        "nearest_neighbours",
        "averaging",
        "greedy_tree_2",
        "greedy_tree_4",
        "greedy_tree_4_signs",
    )

    @property
    def divisor(self) -> float:
        return 1.0

    def parameters(self, random: RandomSource, dims: int) -> tuple[Tensor, Tensor]:
        """The inner nodes' coordinates [B, 2^depth - 1] and the leaves' values [B, 2^depth]."""
        inner = 2**self.depth - 1
        return (random.uniform(inner) * dims).long(), random.normal(inner + 1)

    def outputs(self, xs: Tensor, parameters: tuple[Tensor, Tensor]) -> Tensor:
        coordinates, leaves = parameters
        node = torch.zeros(xs.shape[:2], dtype=torch.long, device=xs.device)
        for _ in range(self.depth):
            coordinate = coordinates.gather(1, node)
            goes_right = xs.gather(2, coordinate[:, :, None]).squeeze(2) > 0
            # The children of heap node i are 2 i + 1 (left) and 2 i + 2 (right).
            node = 2 * node + 1 + goes_right
        # Leaves come after the 2^depth − 1 inner nodes.
        return leaves.gather(1, node - coordinates.shape[1])
