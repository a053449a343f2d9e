"""Linear probes in closed form, beside the trained ones: what can be read off a state linearly.

probes = LinearProbes(layers, readings(tokens_seen), width, outputs)
probes.add(layer, states, targets)
probes.solve(penalty)
predictions = probes.predict(layer, other_states)
"""

from __future__ import annotations

import torch
from torch import Tensor


def readings(tokens_seen: Tensor) -> Tensor:
    """The two inputs of linear probes, as weights over tokens [2, lengths, S]: the mean of the
    tokens that each length sees, and the last of them; `tokens_seen` is a bool [lengths, S].

    A sum over pairs, such as XᵀY, can be stored at all of them, each pair's term at its own tokens.
    A function of all pairs can, under a causal mask, be at the last token only.
    """
    mask = tokens_seen.double()
    positions = torch.arange(tokens_seen.shape[1], device=tokens_seen.device)
    last = (positions * tokens_seen).argmax(1)
    return torch.stack((mask / mask.sum(1, keepdim=True), (positions == last[:, None]).double()))


class LinearProbes:
    """One linear probe for each (layer, length) and each of several readings Σ_s weights_s Y_s,
    `weights` being [readings, lengths, S]: target ≈ (Σ_s weights_s Y_s) @ map + intercept, with the
    reading that tells most of each output. Batches are added to normal equations, in float64.

    Solved, it has `maps` [layers, readings, lengths, D, outputs], and `intercepts` and `selection`
    (1 or 0) [layers, readings, lengths, 1, outputs].
    """

    maps: Tensor
    intercepts: Tensor
    selection: Tensor

    def __init__(self, layers: int, weights: Tensor, width: int, outputs: int) -> None:
        shape, like = (layers, *weights.shape[:2]), weights.double()
        self.weights = like
        self._counts = [0] * layers
        self._sums = like.new_zeros(*shape, 1, width)
        self._products = like.new_zeros(*shape, width, width)
        self._target_sums = like.new_zeros(layers, shape[2], 1, outputs)
        self._target_products = like.new_zeros(*shape, width, outputs)

    def add(self, layer: int, states: Tensor, targets: Tensor) -> None:
        """Add a layer's states [B, S, D] with their targets [B, lengths, outputs] to the sums."""
        features, values = self._read(states), targets.double().transpose(0, 1)
        self._counts[layer] += len(states)
        self._sums[layer] += features.sum(-2, keepdim=True)
        self._products[layer] += features.mT @ features
        self._target_sums[layer] += values.sum(1, keepdim=True)
        self._target_products[layer] += features.mT @ values

    def solve(self, penalty: float) -> None:
        """Find the maps with the least mean squared error + penalty · v · ‖map‖², v being the mean
        variance of the probe's inputs, so that a penalty means the same at every layer whatever the
        size of its states. The intercept is not penalised. If several maps are optimal (possible at
        penalty 0), the smallest. The selected reading has the least error on the added states."""
        maps, intercepts, selections = [], [], []
        for layer, count in enumerate(self._counts):
            mean, target_mean = self._sums[layer] / count, self._target_sums[layer] / count
            covariance = self._products[layer] / count - mean.mT @ mean
            cross = self._target_products[layer] / count - mean.mT @ target_mean
            penalised = covariance.clone()
            variances = penalised.diagonal(dim1=-2, dim2=-1)  # a view: the penalty goes into it
            variances += penalty * variances.mean(-1, keepdim=True)
            solution = torch.linalg.pinv(penalised, hermitian=True) @ cross
            explained = (solution * (2 * cross - covariance @ solution)).sum(-2, keepdim=True)
            best = explained.argmax(0, keepdim=True)
            maps.append(solution)
            intercepts.append(target_mean - mean @ solution)
            selections.append(torch.zeros_like(explained).scatter_(0, best, 1.0))
        self.maps, self.intercepts, self.selection = map(
            torch.stack, (maps, intercepts, selections)
        )

    def predict(self, layer: int, states: Tensor) -> Tensor:
        """Predictions from a layer's states [B, S, D]: [lengths, B, outputs]."""
        predictions = self._read(states) @ self.maps[layer] + self.intercepts[layer]
        return (predictions * self.selection[layer]).sum(0)

    def _read(self, states: Tensor) -> Tensor:
        """Σ_s weights_s Y_s of states [B, S, D], in float64: [readings, lengths, B, D]."""
        return torch.einsum("ris,bsd->ribd", self.weights, states.double())
