"""Linear probes in closed form, beside those that are trained: what a state holds in plain sight.

sums = LinearProbes(layers, readings(tokens_seen), width, outputs)
sums.add(layer, states, targets)
predictions = sums.solve(penalty).predict(layer, other_states)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def readings(tokens_seen: Tensor) -> Tensor:
    """What linear probes may read, as weights [2, lengths, S]: the mean of the tokens that each
    length sees, and the last of them; `tokens_seen` is a bool [lengths, S].

    A sum over pairs, as XᵀY is, can lie spread over them, each pair's share at its own. What all
    pairs make together is, under a causal mask, at the last token alone.
    """
    seen = tokens_seen.double()
    places = torch.arange(tokens_seen.shape[1], device=tokens_seen.device)
    last = (places * tokens_seen).argmax(1)
    return torch.stack((seen / seen.sum(1, keepdim=True), (places == last[:, None]).double()))


@dataclass(frozen=True)
class LinearMaps:
    """Solved probes: each target ≈ (Σ_s weights_s Y_s) @ map + intercept, by the reading of it that
    is `chosen`."""

    weights: Tensor  # [readings, lengths, S]
    maps: Tensor  # [layers, readings, lengths, D, outputs]
    intercepts: Tensor  # [layers, readings, lengths, 1, outputs]
    chosen: Tensor  # [layers, readings, lengths, 1, outputs]: 1 or 0

    def predict(self, layer: int, states: Tensor) -> Tensor:
        """What the probes of a layer read in its states [B, S, D]: [lengths, B, outputs]."""
        predictions = _read(self.weights, states) @ self.maps[layer] + self.intercepts[layer]
        return (predictions * self.chosen[layer]).sum(0)

    def split(self, outputs: Sequence[int]) -> list[LinearMaps]:
        """The maps to the first so many outputs, to the next, …"""
        tensors = (self.maps, self.intercepts, self.chosen)
        of_each = (part.split(list(outputs), dim=-1) for part in tensors)
        return [LinearMaps(self.weights, *each) for each in zip(*of_each, strict=True)]


class LinearProbes:
    """Normal equations of one linear probe for each (layer, length) and each of several readings
    Σ_s weights_s Y_s, `weights` being [readings, lengths, S], in float64 and batch by batch."""

    def __init__(self, layers: int, weights: Tensor, width: int, outputs: int) -> None:
        shape, like = (layers, *weights.shape[:2]), weights.double()
        self.weights = like
        self._counts = [0] * layers
        self._sums = like.new_zeros(*shape, 1, width)
        self._products = like.new_zeros(*shape, width, width)
        self._target_sums = like.new_zeros(layers, shape[2], 1, outputs)
        self._target_products = like.new_zeros(*shape, width, outputs)

    def add(self, layer: int, states: Tensor, targets: Tensor) -> None:
        """Count in a layer's states [B, S, D] with their targets [B, lengths, outputs]."""
        read, wanted = _read(self.weights, states), targets.double().transpose(0, 1)
        self._counts[layer] += len(states)
        self._sums[layer] += read.sum(-2, keepdim=True)
        self._products[layer] += read.mT @ read
        self._target_sums[layer] += wanted.sum(1, keepdim=True)
        self._target_products[layer] += read.mT @ wanted

    def solve(self, penalty: float) -> LinearMaps:
        """The maps with the least mean squared error + penalty · v · ‖map‖², v being the mean
        variance of what the probe reads, so that a penalty means the same at every layer whatever
        the size of its states. The intercept is free. Where several are best, as with a penalty of
        0 they can be, the smallest. Chosen is the reading with the least error on what was added.

        Raises ValueError for a layer that nothing was added to.
        """
        if not all(self._counts):
            raise ValueError(f"nothing was added to layer {self._counts.index(0)}")
        maps, intercepts, chosen = [], [], []
        for layer, count in enumerate(self._counts):
            mean, target_mean = self._sums[layer] / count, self._target_sums[layer] / count
            covariance = self._products[layer] / count - mean.mT @ mean
            with_target = self._target_products[layer] / count - mean.mT @ target_mean
            penalised = covariance.clone()
            variances = penalised.diagonal(dim1=-2, dim2=-1)  # a view: the penalty goes into it
            variances += penalty * variances.mean(-1, keepdim=True)
            solved = torch.linalg.pinv(penalised, hermitian=True) @ with_target
            explained = (solved * (2 * with_target - covariance @ solved)).sum(-2, keepdim=True)
            best = explained.argmax(0, keepdim=True)
            maps.append(solved)
            intercepts.append(target_mean - mean @ solved)
            chosen.append(torch.zeros_like(explained).scatter_(0, best, 1.0))
        return LinearMaps(self.weights, *map(torch.stack, (maps, intercepts, chosen)))


def _read(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_s weights_s Y_s of states [B, S, D], in float64: [readings, lengths, B, D]."""
    return torch.einsum("ris,bsd->ribd", weights, states.double())
