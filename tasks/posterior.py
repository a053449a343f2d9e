"""The posterior mean of each output of a prompt given the pairs before it, for linear functions.

means = posterior_mean(xs, ys, supports(8, 2, xs.device))          # [B, n]

In torch, on the prompts' device and without waiting for it: targets of training. Evaluation has its
own code in NumPy (evaluation/baselines/bayes.py), which drops hopeless supports; tests compare the
two.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

_ROUNDING = 2.0**-24  # of an output in float32, relative to its size


@lru_cache(maxsize=64)
def supports(dims: int, sparsity: int, device: torch.device) -> Tensor:
    """All supports of `sparsity` coordinates of the first `dims`, [C, sparsity]. Cached, since a
    captured step cannot copy from the host."""
    return torch.tensor(list(combinations(range(dims), sparsity)), device=device)


@torch.no_grad()
def posterior_mean(xs: Tensor, ys: Tensor, candidates: Tensor, noise_std: float = 0.0) -> Tensor:
    """E[y_i | the pairs before, x_i] for y = w·x + N(0, noise_std²) with w ~ N(0, I) on one of the
    supports `candidates` [C, s], all equally likely.

    A Kalman filter for each support, in float64; supports are weighted by their evidence. Outputs
    are assumed to have float32's rounding error beside the noise. xs [B, n, d], ys [B, n]; returns
    [B, n] of their type.
    """
    size, dims = candidates.shape[1], xs.shape[2]
    inputs, outputs = xs.double()[:, :, candidates], ys.double()  # [B, n, C, s]
    rounding = size / dims * xs.double().square().sum(-1) * _ROUNDING**2
    variance = (noise_std**2 + rounding).clamp(min=_ROUNDING**2)[:, :, None]
    batch, points, count, _ = inputs.shape
    covariance = torch.eye(size, dtype=inputs.dtype, device=xs.device)
    covariance = covariance.expand(batch, count, size, size)
    weights = inputs.new_zeros(batch, count, size)
    evidence = inputs.new_zeros(batch, count)
    means = []
    for i in range(points):
        x = inputs[:, i]
        prediction = (x * weights).sum(-1)
        means.append((evidence.softmax(1) * prediction).sum(1))
        cross_covariance = (covariance @ x[..., None]).squeeze(-1)
        innovation_variance = (x * cross_covariance).sum(-1).clamp(min=0) + variance[:, i]
        innovation = outputs[:, i, None] - prediction
        evidence = (
            evidence - (innovation.square() / innovation_variance + innovation_variance.log()) / 2
        )
        gain = cross_covariance / innovation_variance[..., None]
        weights = weights + gain * innovation[..., None]
        covariance = covariance - gain[..., None] * cross_covariance[..., None, :]
    return torch.stack(means, dim=1).to(ys.dtype)
