"""The toy model of residual scaling's theorems: h ← h + ε W relu(h), looped and not, in float64.

W has entries N(0, 1/d), h₀ the length √d; a looped stack repeats one W, a deep one draws a W for
each layer (arXiv 2606.18524, Theorems 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, cycle, islice, repeat
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from reloop.models.residual import residual_scale
from reloop.training.progress import Progress

from ..settings import StabilitySettings
from ..tables import SCALINGS, over_seeds
from .report import draw, report

__all__ = ["draw", "measure", "report"]

WIDTH = 1024
_ANGLES_AT = 16  # loops whose increments' cosines are taken
_LAYERS = (1, 4, 12)  # of the looped stacks of more than one layer


def measure(settings: StabilitySettings, width: int = WIDTH) -> dict[str, Any]:
    """Over seeds, of states of width d: ‖h_R‖/√d and its root mean square, the change of the output
    by one update, the mean cosine of different increments, and ‖h_R‖/√d of looped stacks of several
    layers."""
    loops, curves = settings.all_loops, dict[str, list[Any]]()
    seeds = settings.all_seeds
    with Progress(len(seeds), "toy", "seed") as progress:
        for seed in seeds:
            for name, values in _one_seed(width, loops, seed).items():
                curves.setdefault(name, []).append(values)
            progress.update()
    parts = {name: np.array(values) for name, values in curves.items()}
    result: dict[str, Any] = {"width": width, "seeds": len(seeds), "seed": settings.seed}
    result |= {"loops": list(loops), "angles_at": _ANGLES_AT}
    for name, values in parts.items():
        part, _, curve = name.partition("/")
        result.setdefault(part, {})[curve] = over_seeds(values)
        if part == "norm":
            root = np.sqrt((values**2).mean(0))
            result[part][curve]["root_mean_square"] = root.tolist()
    return result


def layers(width: int, seed: int) -> Iterator[Tensor]:
    """h₀ [d], then the weights [d, d] of one layer after another, endlessly."""
    generator = Generator().manual_seed(seed)
    h = torch.randn(width, generator=generator, dtype=torch.float64)
    yield h * (math.sqrt(width) / torch.linalg.vector_norm(h))
    while True:
        weights = torch.randn(width, width, generator=generator, dtype=torch.float64)
        yield weights.div_(math.sqrt(width))


def run(weights: Iterable[Tensor], start: Tensor, loops: Tensor, scales: Tensor) -> Tensor:
    """The last states [C, d] from the start [d], row c after loops[c] steps scaled by scales[c]."""
    h = start.repeat(len(loops), 1)
    for t, layer in zip(range(int(loops.max())), weights, strict=False):
        active = t < loops
        h[active] += scales[active, None] * (h[active].relu() @ layer.T)
    return h


def derivative(
    weights: Tensor, signs: Tensor, start: Tensor, loops: Tensor, scales: Tensor
) -> Tensor:
    """∂h_R/∂η [C, d] at η = 0 of the looped stack with W + η S/√d, for signs S [d, d]."""
    h, change = start.repeat(len(loops), 1), start.new_zeros(len(loops), len(start))
    direction = signs / math.sqrt(len(start))
    for t in range(int(loops.max())):
        active = t < loops
        state, scale = h[active], scales[active, None]
        increment = (change[active] * (state > 0)) @ weights.T + state.relu() @ direction.T
        change[active] += scale * increment
        h[active] += scale * (state.relu() @ weights.T)
    return change


def mean_cosine(weights: Iterable[Tensor], start: Tensor, count: int, scale: float) -> float:
    """The mean cosine over pairs of different increments W relu(h) among the first `count`."""
    h, units = start, list[Tensor]()
    for layer in islice(weights, count):
        increment = layer @ h.relu()
        units.append(increment / torch.linalg.vector_norm(increment))
        h = h + scale * increment
    cosines = torch.stack(units) @ torch.stack(units).T
    return float((cosines.sum() - cosines.trace()) / (count * (count - 1)))


def _one_seed(width: int, loops: Sequence[int], seed: int) -> dict[str, Any]:
    """The curves of one seed, by `part/curve`."""
    source = layers(width, seed)
    start, *stack = islice(source, 1 + max(_ANGLES_AT, *_LAYERS))
    shared, counts = repeat(stack[0]), torch.tensor(loops).repeat(len(SCALINGS))
    scales = _scales([(scaling, r, 1) for scaling in SCALINGS for r in loops])
    final_states = {
        "norm/looped": run(shared, start, counts, scales),
        "norm/deep": run(chain(stack, source), start, counts, scales),
        "change/looped": derivative(stack[0], _signs(width, seed), start, counts, scales),
    }
    curves: dict[str, Any] = {}
    for name, states in final_states.items():
        by_scaling = _lengths(states).view(len(SCALINGS), -1)
        for scaling, values in zip(SCALINGS, by_scaling, strict=True):
            curves[f"{name} {scaling}"] = values.tolist()
    curves["cosine/deep none"] = mean_cosine(stack, start, _ANGLES_AT, 1.0)
    for scaling in ("none", "linear"):
        scale = residual_scale(scaling, _ANGLES_AT, 1)
        curves[f"cosine/looped {scaling}"] = mean_cosine(shared, start, _ANGLES_AT, scale)
    for layer_count in _LAYERS:
        # A step is a layer here: R loops are R U steps.
        last_states = run(
            cycle(stack[:layer_count]),
            start,
            layer_count * torch.tensor(loops),
            _scales([("factored", r, layer_count) for r in loops]),
        )
        curves[f"layers/{layer_count}"] = _lengths(last_states).tolist()
    return curves


def _scales(rows: Sequence[tuple[str, int, int]]) -> Tensor:
    """ε of each (scaling, loops, layers)."""
    return torch.tensor([residual_scale(*row) for row in rows], dtype=torch.float64)


def _signs(width: int, seed: int) -> Tensor:
    """The signs of the update, from their own stream of random numbers."""
    generator = Generator().manual_seed(2**62 + seed)
    return torch.randint(2, (width, width), generator=generator).double().mul_(2).sub_(1)


def _lengths(states: Tensor) -> Tensor:
    """The length of states [C, d] over √d: [C]."""
    return torch.linalg.vector_norm(states, dim=1) / math.sqrt(states.shape[1])
