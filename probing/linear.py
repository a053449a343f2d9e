"""Linear probes in closed form, beside those that are trained: what a state holds in plain sight.

sums = LinearProbes(layers, at_last(tokens_seen), width, outputs); sums.add(layer, states, targets)
predictions = sums.solve(penalty).predict(layer, other_states)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def at_last(tokens_seen: Tensor) -> Tensor:
    """Weights [lengths, S] that read the last token each length sees, of bool [lengths, S].

    Under a causal mask it is the one state that has read exactly the pairs of its length: those
    before it have read fewer. So what all pairs make together is to be sought there first.
    """
    places = torch.arange(tokens_seen.shape[1], device=tokens_seen.device)
    last = (places * tokens_seen).argmax(1)
    return (places == last[:, None]).double()


def at_mean(tokens_seen: Tensor) -> Tensor:
    """Weights [lengths, S] that read the mean of the tokens each length sees, of bool [lengths, S]:
    a sum over pairs, as XᵀY is, can lie spread over them with each pair's share at its own."""
    seen = tokens_seen.double()
    return seen / seen.sum(1, keepdim=True)


@dataclass(frozen=True)
class LinearMaps:
    """Solved probes: targets ≈ Σ_s weights_s Y_s @ maps + intercepts."""

    weights: Tensor  # [lengths, S]
    maps: Tensor  # [layers, lengths, D, outputs]
    intercepts: Tensor  # [layers, lengths, 1, outputs]

    def predict(self, layer: int, states: Tensor) -> Tensor:
        """What the probes of a layer read in its states [B, S, D]: [lengths, B, outputs]."""
        read = _read(self.weights, states)
        return torch.baddbmm(self.intercepts[layer], read, self.maps[layer])


class LinearProbes:
    """Normal equations of one linear probe for each (layer, length), in float64, batch by batch.

    A probe reads Σ_s weights_s Y_s, `weights` being [lengths, S] (`at_last`, `at_mean`).
    """

    def __init__(self, layers: int, weights: Tensor, width: int, outputs: int) -> None:
        shape, like = (layers, len(weights)), weights.double()
        self.weights = like
        self._counts = [0] * layers
        self._sums = like.new_zeros(*shape, 1, width)
        self._products = like.new_zeros(*shape, width, width)
        self._target_sums = like.new_zeros(*shape, 1, outputs)
        self._target_products = like.new_zeros(*shape, width, outputs)

    def add(self, layer: int, states: Tensor, targets: Tensor) -> None:
        """Count in a layer's states [B, S, D] with their targets [B, lengths, outputs]."""
        read, wanted = _read(self.weights, states), targets.double().transpose(0, 1)
        self._counts[layer] += len(states)
        self._sums[layer] += read.sum(1, keepdim=True)
        self._products[layer].baddbmm_(read.mT, read)
        self._target_sums[layer] += wanted.sum(1, keepdim=True)
        self._target_products[layer].baddbmm_(read.mT, wanted)

    def solve(self, penalty: float) -> LinearMaps:
        """The maps with the least mean squared error + penalty · v · ‖map‖², v being the mean
        variance of what the probe reads, so that a penalty means the same at every layer whatever
        the size of its states. The intercept is free. Where several are best, as with a penalty of
        0 they can be, the smallest.

        Raises ValueError for a layer that nothing was added to.
        """
        if not all(self._counts):
            raise ValueError(f"nothing was added to layer {self._counts.index(0)}")
        maps, intercepts = [], []
        for layer, count in enumerate(self._counts):
            mean, target_mean = self._sums[layer] / count, self._target_sums[layer] / count
            covariance = self._products[layer] / count - mean.mT @ mean
            with_target = self._target_products[layer] / count - mean.mT @ target_mean
            variances = covariance.diagonal(dim1=1, dim2=2)  # a view: the penalty goes into it
            variances += penalty * variances.mean(1, keepdim=True)
            inverse = torch.linalg.pinv(covariance, hermitian=True)
            maps.append(inverse @ with_target)
            intercepts.append(target_mean - mean @ maps[-1])
        return LinearMaps(self.weights, torch.stack(maps), torch.stack(intercepts))


def _read(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_s weights_s Y_s of states [B, S, D], in float64: [lengths, B, D]."""
    return torch.einsum("is,bsd->ibd", weights, states.double())
