"""Functions of one number as linear functions of its features: a Gaussian process of finite rank.

task = make_task("curves", dims=11)
phi = task.features(torch.linspace(*task.interval, 200))        # [200, 11]
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from .linear import Linear, posterior_mean, supports
from .posteriors import curve_posterior
from .random_source import RandomSource
from .task import Predictor, Prompts, register_task


@register_task("curves")
@dataclass(frozen=True)
class Curves(Linear):
    """y = w·φ(x) + N(0, noise_std²) with x uniform in `interval`; a model reads φ(x), and not x.

    φ has a constant, then the sine and the cosine of each frequency: π/2, π, 3π/2 … The slowest is
    half a wave over the interval, so that curves do not end as they begin. Features k of equal
    frequency have weights of variance (1 + k)^-decay, over the sum of all: y has variance 1.
    """

    noise_std: float = 0.1
    decay: float = 1.0
    # Least squares without a prior would be off by thousands: features are nearly dependent.
    baselines = ("ridge", "nearest_neighbours")
    interval: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    @property
    def divisor(self) -> float:
        return 1.0

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """0, then each π/2 · k twice: of its sine and of its cosine, float64 [d]."""
        return self._harmonics(device) * (math.pi / 2)

    def variances(self, device: torch.device | None = None) -> Tensor:
        """Of the weights, float64 [d]; their sum is 1."""
        falling = (1 + self._harmonics(device)) ** -self.decay
        return falling / falling.sum()

    def _harmonics(self, device: torch.device | None) -> Tensor:
        """0, 1, 1, 2, 2, 3, …"""
        places = torch.arange(1, self.dims + 1, device=device)
        return (places // 2).double()

    def features(self, x: Tensor) -> Tensor:
        """φ of numbers [...], as [..., d] of their type: 1, √2 sin(π/2 x), √2 cos(π/2 x), …

        For x uniform in the interval each has the mean square 1.
        """
        angles = x.double()[..., None] * self.frequencies(x.device)
        places = torch.arange(self.dims, device=x.device)
        # Odd places are sines, even ones the cosine of the same frequency: [..., d].
        waves = torch.where(places % 2 == 1, angles.sin(), angles.cos()) * math.sqrt(2)
        return torch.where(places == 0, 1.0, waves).to(x.dtype)

    def parameters(self, random: RandomSource, dims: int) -> Tensor:
        normal = random.normal(self.dims)
        return normal * self.variances(normal.device).sqrt().float()

    def prompts(self, parameters: Tensor, random: RandomSource, points: int, dims: int) -> Prompts:
        start, end = self.interval
        xs = self.features(start + (end - start) * random.uniform(points))
        xs[:, :, dims:].zero_()
        return Prompts(xs, self.noise(self.outputs(xs, parameters), random, dims))

    def noise(self, ys: Tensor, random: RandomSource, dims: int) -> Tensor:
        return ys + self.noise_std * random.normal(ys.shape[1])

    def bayes(self) -> Predictor | None:
        variances = self.variances().numpy()
        return partial(curve_posterior, variances=variances, noise_std=self.noise_std)

    def posterior_mean(self, prompts: Prompts, dims: int) -> Tensor:
        # w·φ with w of these variances is v·(φ times their roots), with v ~ N(0, I).
        scaled = prompts.xs * self.variances(prompts.xs.device).sqrt().float()
        return posterior_mean(
            scaled, prompts.ys, supports(dims, dims, prompts.xs.device), self.noise_std
        )
