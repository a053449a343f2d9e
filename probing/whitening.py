"""Whitening of states, so that probes learn fast: centred at each position, equal variances.

whitening = Whitening.of(states, layers); whitened = whitening(layer, layer_states)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# Directions of less variance than this are not scaled to 1: of the mean variance, and
_LEAST = 1e-4
_ROUNDING = 1e-10  # of the mean square, for a layer whose states are all equal


@dataclass(frozen=True)
class Whitening:
    """An affine map of each layer's states [B, S, D], the same for all prompts.

    A probe's first map and bias can undo it, so that probes can compute the same functions; but
    Adam learns them faster, as the variance of states differs between directions by orders of
    magnitude.
    """

    means: Tensor  # [layers, S, D]
    maps: Tensor  # [layers, D, D], symmetric

    @classmethod
    def of(cls, states: Callable[[], Iterator[tuple[int, Tensor]]], layers: int) -> Whitening:
        """The whitening of all states, which each call of `states` yields batch by batch as
        (layer, [prompts, S, D]); it is called twice."""
        count, sums = 0, dict[int, Tensor]()
        for layer, batch in states():
            count += len(batch) if layer == 0 else 0
            total = batch.sum(0, dtype=torch.float64)
            sums[layer] = sums[layer] + total if layer in sums else total
        means = torch.stack([sums[layer] for layer in range(layers)]) / count
        grams = means.new_zeros(layers, means.shape[2], means.shape[2])
        for layer, batch in states():
            rows = (batch - means[layer].to(batch.dtype)).flatten(0, 1)
            grams[layer] += rows.T @ rows
        values, vectors = torch.linalg.eigh(grams / (count * means.shape[1]))
        variance = values.mean(1, keepdim=True)
        square = variance + means.square().mean((1, 2))[:, None]
        floor = torch.maximum(_LEAST * variance, _ROUNDING * square)
        tiny = torch.finfo(torch.float32).tiny
        scales = values.clamp_min(floor).clamp_min(tiny).rsqrt()
        # Symmetric: computed again, or on another machine, it is the same map but for rounding.
        maps = vectors * scales[:, None] @ vectors.mT
        return cls(means.float(), maps.float())

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        """The states of a layer, whitened."""
        return (states - self.means[layer]) @ self.maps[layer]
