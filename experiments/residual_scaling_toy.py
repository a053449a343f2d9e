"""The ReLU layer of the theorems of 'On the Residual Scaling of Looped Transformers' (arXiv
2606.18524), looped and not.

result = toy(Near(loops=(1, 4, 16), seeds=3), width=256)
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.models.model import residual_scale

from .near_init import LABELS, Near, by_seed, loop_curves, scaling_curves

TOY_WIDTH = 1024
_ANGLES_AT = 16  # loops whose increments' cosines are taken
_LAYERS = (1, 4, 12)  # of the looped stacks of more than one layer
_HIGHEST = 1e3  # of the picture: exploding norms leave it


def toy(near: Near, width: int = TOY_WIDTH) -> dict[str, Any]:
    """h ← h + ε W relu(h) in float64, W with entries N(0, 1/d), h₀ of length √d; a looped stack
    repeats one W, a deep one draws a W for each layer (Theorems 1 and 2).

    Over seeds, of states of this width d, by scaling and loops: `looped` and `deep`, ‖h_R‖/√d, and
    `change`, that of the looped stack's output by one update of random signs, over its rate; by
    stack `cosine`, the mean over pairs of different increments of 16 loops; and `layers`, ‖h_R‖/√d
    of looped stacks of several layers, ε = 1/(R√U), by their number.
    """
    runs = [_one_seed(width, near.loops, seed) for seed in range(near.seeds)]
    values = {
        part: {name: np.array([run[part][name] for run in runs]) for name in curves}
        for part, curves in runs[0].items()
    }
    result = {
        part: {name: by_seed(of) for name, of in curves.items()} for part, curves in values.items()
    }
    panels = _toy_panels(values, near.loops, f"h ← h + ε W relu(h), d = {width}")
    return {"width": width, "loops": list(near.loops), **result, "panels": panels}


def _toy_panels(
    values: Mapping[str, Mapping[str, Floats]], loops: Sequence[int], title: str
) -> list[Panel]:
    """Norms and changes by loops, those that explode as far as 1,000; the norms of stacks of
    several layers; and the cosines."""
    norm, moved = "‖h_R‖ / √d", "change of the output by one update / η"
    by_loops = partial(Panel, x_label="loops R", x=loops)
    both = partial(by_loops, log="xy", limits=(0.5, _HIGHEST), picture="toy")
    norms = scaling_curves(values["looped"], "looped, ")
    norms += scaling_curves(values["deep"], "not shared, ")
    changes = scaling_curves(values["change"], "looped, ")
    layers = loop_curves({int(u): of for u, of in values["layers"].items()}, "U")
    several = f"{title}, looped stacks of U layers, ε = 1/(R√U)"
    pairs = f"{title}, mean over pairs of increments of {_ANGLES_AT} loops"
    stacks = [*values["cosine"]]
    cosine = Curve.of("cosine", "looped", mean_of_seeds(np.transpose([*values["cosine"].values()])))
    bars = partial(Panel, x_names=stacks, bars=True)
    return [
        both("toy-norm", title, y_label=norm, curves=norms),
        both("toy-change", title, y_label=moved, curves=changes),
        by_loops("toy-layers", several, y_label=norm, curves=layers, log="x"),
        bars("toy-cosines", pairs, "stack", "cosine", range(len(stacks)), [cosine]),
    ]


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


def _one_seed(width: int, loops: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """The curves of one seed, by part and name."""
    source = layers(width, seed)
    start, *stack = islice(source, 1 + max(_ANGLES_AT, *_LAYERS))
    shared, counts = repeat(stack[0]), torch.tensor(loops).repeat(len(LABELS))
    scales = _scales([(scaling, r, 1) for scaling in LABELS for r in loops])
    generator = Generator().manual_seed(2**62 + seed)  # a stream of random numbers of its own
    signs = torch.randint(2, (width, width), generator=generator).double().mul_(2).sub_(1)
    ends = {
        "looped": run(shared, start, counts, scales),
        "deep": run(chain(stack, source), start, counts, scales),
        "change": derivative(stack[0], signs, start, counts, scales),
    }
    curves: dict[str, dict[str, Any]] = {
        part: dict(zip(LABELS, _lengths(states).view(len(LABELS), -1).tolist(), strict=True))
        for part, states in ends.items()
    }
    curves["cosine"] = {
        "deep none": mean_cosine(stack, start, _ANGLES_AT, 1.0),
        "looped none": mean_cosine(shared, start, _ANGLES_AT, 1.0),
        "looped linear": mean_cosine(shared, start, _ANGLES_AT, 1 / _ANGLES_AT),
    }
    curves["layers"] = {}
    for u in _LAYERS:  # a step is a layer here: R loops are R U steps
        scales = _scales([("factored", r, u) for r in loops])
        states = run(cycle(stack[:u]), start, u * torch.tensor(loops), scales)
        curves["layers"][str(u)] = _lengths(states).tolist()
    return curves


def _scales(rows: Sequence[tuple[str, int, int]]) -> Tensor:
    """ε of each (scaling, loops, layers)."""
    return torch.tensor([residual_scale(*row) for row in rows], dtype=torch.float64)


def _lengths(states: Tensor) -> Tensor:
    """The length of states [C, d] over √d: [C]."""
    return torch.linalg.vector_norm(states, dim=1) / math.sqrt(states.shape[1])
