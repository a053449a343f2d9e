"""Linear probes in closed form, beside the trained ones: what can be read off a state linearly.

sums = LinearProbes(layers, readings(tokens_seen), width, outputs)
sums.add(layer, states, targets)
predictions = sums.solve(penalty).predict(layer, other_states)
maps = solve_linear(fit)["gradient"]                 # those of a run
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .fit import Fit

_BATCHES = 8  # each of as many prompts as probes are tested on
_PENALTY = 1e-6  # over the inputs' variance: for directions that the states do not span


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


@dataclass(frozen=True)
class LinearMaps:
    """Solved probes: each target ≈ (Σ_s weights_s Y_s) @ map + intercept, with the reading that
    `selection` marks."""

    weights: Tensor  # [readings, lengths, S]
    maps: Tensor  # [layers, readings, lengths, D, outputs]
    intercepts: Tensor  # [layers, readings, lengths, 1, outputs]
    selection: Tensor  # [layers, readings, lengths, 1, outputs]: 1 or 0

    def predict(self, layer: int, states: Tensor) -> Tensor:
        """Predictions from a layer's states [B, S, D]: [lengths, B, outputs]."""
        predictions = _read(self.weights, states) @ self.maps[layer] + self.intercepts[layer]
        return (predictions * self.selection[layer]).sum(0)

    def split(self, outputs: Sequence[int]) -> list[LinearMaps]:
        """The maps to the first outputs[0] outputs, to the next outputs[1], …"""
        tensors = (self.maps, self.intercepts, self.selection)
        splits = (tensor.split(list(outputs), dim=-1) for tensor in tensors)
        return [LinearMaps(self.weights, *parts) for parts in zip(*splits, strict=True)]


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
        """Add a layer's states [B, S, D] with their targets [B, lengths, outputs] to the sums."""
        features, values = _read(self.weights, states), targets.double().transpose(0, 1)
        self._counts[layer] += len(states)
        self._sums[layer] += features.sum(-2, keepdim=True)
        self._products[layer] += features.mT @ features
        self._target_sums[layer] += values.sum(1, keepdim=True)
        self._target_products[layer] += features.mT @ values

    def solve(self, penalty: float) -> LinearMaps:
        """The maps with the least mean squared error + penalty · v · ‖map‖², v being the mean
        variance of the probe's inputs, so that a penalty means the same at every layer whatever the
        size of its states. The intercept is not penalised. If several maps are optimal (possible at
        penalty 0), the smallest. The selected reading has the least error on the added states.

        Raises ValueError for a layer without states.
        """
        if not all(self._counts):
            raise ValueError(f"nothing was added to layer {self._counts.index(0)}")
        maps, intercepts, selections = [], [], []
        for layer, count in enumerate(self._counts):
            mean, target_mean = self._sums[layer] / count, self._target_sums[layer] / count
            covariance = self._products[layer] / count - mean.mT @ mean
            cross = self._target_products[layer] / count - mean.mT @ target_mean
            penalised = covariance.clone()
            variances = penalised.diagonal(dim1=-2, dim2=-1)  # a view: the penalty goes into it
            variances += penalty * variances.mean(-1, keepdim=True)
            solution = torch.linalg.pinv(penalised, hermitian=True) @ cross
            explained_variance = (solution * (2 * cross - covariance @ solution)).sum(
                -2, keepdim=True
            )
            best = explained_variance.argmax(0, keepdim=True)
            maps.append(solution)
            intercepts.append(target_mean - mean @ solution)
            selections.append(torch.zeros_like(explained_variance).scatter_(0, best, 1.0))
        return LinearMaps(self.weights, *map(torch.stack, (maps, intercepts, selections)))


def _read(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_s weights_s Y_s of states [B, S, D], in float64: [readings, lengths, B, D]."""
    return torch.einsum("ris,bsd->ribd", weights, states.double())


def solve_linear(fit: Fit) -> dict[str, LinearMaps]:
    """The linear probes of each target, solved from prompts of their own; targets that see the
    same tokens share their normal equations."""
    groups: dict[tuple[range, bool], list[str]] = {}
    for name, target in fit.targets.items():
        groups.setdefault((fit.lengths(name), target.asks_query), []).append(name)
    sums = {
        key: LinearProbes(
            fit.layers,
            readings(fit.tokens_seen(names[0])).to(fit.device),
            fit.width,
            sum(fit.outputs(name) for name in names),
        )
        for key, names in groups.items()
    }
    for batch in range(_BATCHES):
        prompts, parameters = fit.linear_prompts(batch)
        values = {
            key: torch.cat([fit.values(name, prompts, parameters) for name in names], -1)
            for key, names in groups.items()
        }
        values = {key: value.to(fit.device) for key, value in values.items()}
        for layer, rows, states in fit.states(prompts):
            for key, probes in sums.items():
                probes.add(layer, states, values[key][rows])
    maps: dict[str, LinearMaps] = {}
    for key, names in groups.items():
        group_maps = sums[key].solve(_PENALTY).split([fit.outputs(name) for name in names])
        maps |= zip(names, group_maps, strict=True)
    return maps
