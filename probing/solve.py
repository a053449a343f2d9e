"""The linear probes of a run: one for each target, layer (or loop) and context length.

maps = solve_linear(fit)["gradient"]; predictions = maps.predict(layer, states)
"""

from __future__ import annotations

import torch

from .fit import Fit
from .linear import LinearMaps, LinearProbes, readings

_BATCHES = 8  # each of as many prompts as probes are tested on
_PENALTY = 1e-6  # over the inputs' variance: for directions that the states do not span


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
