"""The linear probes of a run: one for each target, layer (or loop) and context length.

maps = solve_linear(fit)["gradient"]; predictions = maps.predict(layer, states)
"""

from __future__ import annotations

import torch

from .fit import Fit
from .linear import LinearMaps, LinearProbes, readings

_BATCHES = 8  # of as many prompts as probes are tested on
_PENALTY = 1e-6  # over the variance of what is read: for what the states do not span


def solve_linear(fit: Fit) -> dict[str, LinearMaps]:
    """The linear probes of each target, solved from prompts that no other probe meets; targets that
    are read from the same tokens share their normal equations."""
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
        values = {key: of_group.to(fit.device) for key, of_group in values.items()}
        for layer, part, states in fit.states(prompts):
            for key, linear in sums.items():
                linear.add(layer, states, values[key][part])
    solved: dict[str, LinearMaps] = {}
    for key, names in groups.items():
        parts = sums[key].solve(_PENALTY).split([fit.outputs(name) for name in names])
        solved |= zip(names, parts, strict=True)
    return solved
