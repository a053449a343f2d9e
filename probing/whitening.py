"""States made easy to learn from: centred at each position, and spread alike in all directions.

whitening = Whitening.of(states, layers); easy = whitening(layer, some_states)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# Directions that vary less than this are not made as wide as the others: of the mean variance, and
_LEAST = 1e-4
_ROUNDING = 1e-10  # of the mean square, as where all prompts come to one state


@dataclass(frozen=True)
class Whitening:
    """An affine map of each layer's states [B, S, D], the same for all prompts.

    A probe's first map and bias can undo it, so that what probes can tell is the same; Adam's steps
    are not, as states vary by orders of magnitude more in some directions than in others.
    """

    means: Tensor  # [layers, S, D]
    maps: Tensor  # [layers, D, D], symmetric

    @classmethod
    def of(cls, states: Callable[[], Iterator[tuple[int, Tensor]]], layers: int) -> Whitening:
        """That of the states which a pass through all prompts gives, part by part as (layer,
        [some prompts, S, D]). Made in two passes."""
        count, sums = 0, dict[int, Tensor]()
        for layer, some in states():
            count += len(some) if layer == 0 else 0
            total = some.sum(0, dtype=torch.float64)
            sums[layer] = sums[layer] + total if layer in sums else total
        means = torch.stack([sums[layer] for layer in range(layers)]) / count
        grams = means.new_zeros(layers, means.shape[2], means.shape[2])
        for layer, some in states():
            rows = (some - means[layer].to(some.dtype)).flatten(0, 1)
            grams[layer] += rows.T @ rows
        values, vectors = torch.linalg.eigh(grams / (count * means.shape[1]))
        variance = values.mean(1, keepdim=True)
        square = variance + means.square().mean((1, 2))[:, None]
        least = torch.maximum(_LEAST * variance, _ROUNDING * square)
        tiny = torch.finfo(torch.float32).tiny
        scales = values.clamp_min(least).clamp_min(tiny).rsqrt()
        # Symmetric: what is computed again, or elsewhere, is the same map but for rounding.
        maps = vectors * scales[:, None] @ vectors.mT
        return cls(means.float(), maps.float())

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        """The states of a layer, whitened."""
        return (states - self.means[layer]) @ self.maps[layer]
