"""Linear functions in context: dense, noisy and sparse (Garg et al. 2022, section 3)."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

import torch
from torch import Tensor

from looplab.conf.checks.config import MOST_SUPPORTS

from .least_squares import least_squares, ridge
from .posteriors import sparse_posterior
from .random_source import RandomSource
from .task import Predictor, Prompts, Task, register_task

_ROUNDING = 2.0**-24  # of an output in float32, relative to its size


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

    def bayes(self) -> Predictor | None:
        # Without noise: minimum norm leaves unseen directions at the prior's mean, 0.
        return least_squares

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        return posterior_mean(prompts.xs, prompts.ys, supports(dims, dims, prompts.xs.device))

    def no_posterior_mean(self) -> str:
        # A subclass without its own has other functions or other noise.
        if "posterior_mean" not in vars(type(self)):
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

    def bayes(self) -> Predictor | None:
        # Renormalised outputs scale w and the noise by the same factor: the estimator is the same.
        return partial(ridge, penalty=self.noise_std**2)

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
        # Drawn for all dimensions: a seed's later numbers do not depend on how many are visible.
        keys = random.uniform(self.dims)[:, :dims]
        support = keys.topk(min(self.sparsity, dims), largest=False).indices
        weights = random.normal(self.dims)
        return torch.zeros_like(weights).scatter(1, support, weights.gather(1, support))

    def bayes(self) -> Predictor | None:
        if self._supports() > MOST_SUPPORTS:
            return None
        return partial(sparse_posterior, sparsity=int(self.divisor))

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        candidates = supports(dims, min(self.sparsity, dims), prompts.xs.device)
        return posterior_mean(prompts.xs, prompts.ys, candidates)

    def no_posterior_mean(self) -> str:
        if self._supports() > MOST_SUPPORTS:
            return f"it has {self._supports():,} supports, more than {MOST_SUPPORTS:,}"
        return super().no_posterior_mean()

    def _supports(self) -> int:
        return math.comb(self.dims, int(self.divisor))


@lru_cache(maxsize=64)
def supports(dims: int, sparsity: int, device: torch.device) -> Tensor:
    """All supports of `sparsity` coordinates of the first `dims`, [C, sparsity]. Cached, since a
    captured step cannot copy from the host."""
    return torch.tensor(list(combinations(range(dims), sparsity)), device=device)


@torch.no_grad()
def posterior_mean(xs: Tensor, ys: Tensor, candidates: Tensor, noise_std: float = 0.0) -> Tensor:
    """E[y_i | the pairs before, x_i] for y = w·x + N(0, noise_std²). The weights w ~ N(0, I) are on
    one of the supports `candidates` [C, s], all equally likely.

    A Kalman filter for each support, in float64; supports are weighted by their evidence. Outputs
    are assumed to have float32's rounding error beside the noise. Without noise s + 1 pairs tell
    the function, and all further means are the outputs themselves. xs [B, n, d], ys [B, n]; returns
    [B, n] of their type, on their device and without waiting for it: targets of training.
    Evaluation has its own code in NumPy (tasks/posteriors.py); tests compare the two.
    """
    size = candidates.shape[1]
    dims = xs.shape[2]
    unknown = ys.shape[1] if noise_std else size + 1
    known = ys[:, unknown:]
    ys = ys[:, :unknown]
    xs = xs[:, :unknown]
    inputs = xs.double()[:, :, candidates]  # [B, n, C, s]
    outputs = ys.double()
    # Var(y | x) = |x|² s / d over the supports, times the square of float32's relative error.
    rounding = size / dims * xs.double().square().sum(-1) * _ROUNDING**2
    variance = (noise_std**2 + rounding).clamp(min=_ROUNDING**2)[:, :, None]
    batch, points, count, _ = inputs.shape
    covariance = torch.eye(size, dtype=inputs.dtype, device=xs.device)
    # [B, C, s, s]: the prior N(0, I) for every prompt and support.
    covariance = covariance.expand(batch, count, size, size)
    weights = inputs.new_zeros(batch, count, size)
    evidence = inputs.new_zeros(batch, count)
    means = []
    # Kalman: w ~ N(weights, covariance) for each support, and y_i is predicted before it is seen.
    for i in range(points):
        x = inputs[:, i]
        prediction = (x * weights).sum(-1)
        # Posterior probabilities of the supports, [B, C], weigh their predictions.
        means.append((evidence.softmax(1) * prediction).sum(1))
        cross_covariance = (covariance @ x[..., None]).squeeze(-1)
        innovation_variance = (x * cross_covariance).sum(-1).clamp(min=0) + variance[:, i]
        innovation = outputs[:, i, None] - prediction
        # log N(innovation; 0, innovation_variance), but for a constant that all supports share.
        evidence = (
            evidence - (innovation.square() / innovation_variance + innovation_variance.log()) / 2
        )
        # K = P x / S, w ← w + K (y − ŷ), P ← P − K (P x)ᵀ, with S = xᵀ P x + σ².
        gain = cross_covariance / innovation_variance[..., None]
        weights = weights + gain * innovation[..., None]
        covariance = covariance - gain[..., None] * cross_covariance[..., None, :]
    return torch.cat((torch.stack(means, dim=1).to(ys.dtype), known), dim=1)
