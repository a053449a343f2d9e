"""Linear functions in context: dense, noisy and sparse (Garg et al. 2022, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from reloop.conf.checks.config import MOST_SUPPORTS

from .posterior import posterior_mean, supports
from .prompts import Prompts
from .random_source import RandomSource
from .task import Task, register_task


@register_task("linear")
@dataclass(frozen=True)
class Linear(Task):
    """y = w·x with w ~ N(0, I)."""

    @property
    def divisor(self) -> float:
        return self.dims

    def parameters(self, random: RandomSource, dims: int) -> Tensor:
        return random.normal(self.dims)

    def outputs(self, xs: Tensor, parameters: Tensor) -> Tensor:
        return (parameters[:, None, :] @ xs.mT).squeeze(1)

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        return posterior_mean(prompts.xs, prompts.ys, supports(dims, dims, prompts.xs.device))

    def no_posterior_mean(self) -> str:
        # Subclasses may have other functions or other noise.
        if type(self) not in (Linear, NoisyLinear, SparseLinear):
            return super().no_posterior_mean()
        for name in ("distinct_prompts", "distinct_functions"):
            if count := getattr(self, name):
                return f"it is not known for task.{name}={count}"
        return ""


@register_task("noisy_linear")
@dataclass(frozen=True)
class NoisyLinear(Linear):
    """y = w·x + N(0, noise_std²), with `renormalize` scaled back to the variance without noise.

    The scale is the exact one, sqrt(dims / (dims + noise_std²)); Garg et al.'s code divides by the
    standard deviation over the batch, which makes a prompt depend on its neighbours.
    """

    noise_std: float = 1.0
    renormalize: bool = False

    def noise(self, ys: Tensor, random: RandomSource, dims: int) -> Tensor:
        noisy = ys + self.noise_std * random.normal(ys.shape[1])
        return noisy * math.sqrt(dims / (dims + self.noise_std**2)) if self.renormalize else noisy

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        # Renormalised outputs scale w and the noise alike, so the estimate has the same form.
        return posterior_mean(
            prompts.xs, prompts.ys, supports(dims, dims, prompts.xs.device), self.noise_std
        )


@register_task("sparse_linear")
@dataclass(frozen=True)
class SparseLinear(Linear):
    """y = w·x where w ~ N(0, I) on a random support of `sparsity` coordinates, else zero.

    The support is drawn from the visible dimensions, min(sparsity, dims) of them.
    """

    sparsity: int = 3
    baselines = ("least_squares", "averaging", "nearest_neighbours", "lasso")

    @property
    def divisor(self) -> float:
        return min(self.sparsity, self.dims)

    def parameters(self, random: RandomSource, dims: int) -> Tensor:
        # The coordinates with the smallest of independent keys are a uniformly random subset.
        keys = random.uniform(self.dims)[:, :dims]
        support = keys.topk(min(self.sparsity, dims), largest=False).indices
        weights = random.normal(self.dims)
        return torch.zeros_like(weights).scatter(1, support, weights.gather(1, support))

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        candidates = supports(dims, min(self.sparsity, dims), prompts.xs.device)
        return posterior_mean(prompts.xs, prompts.ys, candidates)

    def no_posterior_mean(self) -> str:
        count = math.comb(self.dims, int(self.divisor))
        if count > MOST_SUPPORTS:
            return f"it has {count:,} supports, more than {MOST_SUPPORTS:,}"
        return super().no_posterior_mean()
