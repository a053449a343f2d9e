"""The posterior mean of each output of a prompt given the pairs before it, for linear functions.

means = posterior_mean(xs, ys, supports(8, 2, xs.device))          # [B, n]

In torch, on the prompts' device and without waiting for it: targets of training. Evaluation has its
own in NumPy (evaluation/baselines/bayes.py), which drops hopeless supports and is tested against.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

_ROUNDING = 2.0**-24  # of an output in float32, relative to its size


@lru_cache(maxsize=64)
def supports(dims: int, sparsity: int, device: torch.device) -> Tensor:
    """All supports of `sparsity` coordinates of the first `dims`, [C, sparsity]. Made once, since a
    captured step cannot copy from the host."""
    return torch.tensor(list(combinations(range(dims), sparsity)), device=device)


@torch.no_grad()
def posterior_mean(xs: Tensor, ys: Tensor, among: Tensor, noise_std: float = 0.0) -> Tensor:
    """E[y_i | the pairs before, x_i] for y = w·x + N(0, noise_std²) with w ~ N(0, I) on one of the
    supports `among` [C, s], all equally likely.

    A Kalman filter for each support, in float64, which weighs them by their evidence. Outputs are
    taken to carry float32's rounding beside the noise. xs [B, n, d], ys [B, n]; returns [B, n] of
    their type.
    """
    size, dims = among.shape[1], xs.shape[2]
    seen, outputs = xs.double()[:, :, among], ys.double()  # [B, n, C, s]
    rounding = size / dims * xs.double().square().sum(-1) * _ROUNDING**2
    variance = (noise_std**2 + rounding).clamp(min=_ROUNDING**2)[:, :, None]
    batch, points, count, _ = seen.shape
    covariance = torch.eye(size, dtype=seen.dtype, device=xs.device)
    covariance = covariance.expand(batch, count, size, size)
    weights = seen.new_zeros(batch, count, size)
    evidence = seen.new_zeros(batch, count)
    means = []
    for i in range(points):
        x = seen[:, i]
        predicted = (x * weights).sum(-1)
        means.append((evidence.softmax(1) * predicted).sum(1))
        gain = (covariance @ x[..., None]).squeeze(-1)
        spread = (x * gain).sum(-1).clamp(min=0) + variance[:, i]
        missed = outputs[:, i, None] - predicted
        evidence = evidence - (missed.square() / spread + spread.log()) / 2
        gain_of_missed = gain / spread[..., None]
        weights = weights + gain_of_missed * missed[..., None]
        covariance = covariance - gain_of_missed[..., None] * gain[..., None, :]
    return torch.stack(means, dim=1).to(ys.dtype)
