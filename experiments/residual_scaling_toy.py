"""The ReLU layer of the theorems of 'On the Residual Scaling of Looped Transformers' (arXiv
2606.18524), looped and not."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.models.model import residual_scale
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import LABELS, Near, by_seed, loop_curves, near_of, scaling_curves, values_of

TOY_WIDTH = 1024
_ANGLES_AT = 16  # loops whose increments' cosines are taken
_LAYERS = (1, 4, 12)  # of the looped stacks of more than one layer
_HIGHEST = 1e3  # of the picture: exploding norms leave it
_CONE = {"1 − 1/√2": 1 - math.sqrt(0.5), "2": 2.0}  # Lemma 5's bounds for σ = 1, without its δ
_POWERS = 500  # steps of power iteration: further ones change the extreme gains by under 1 %
_SIGNS = {"same_signs": "the same signs in all layers", "own_signs": "signs of each layer's own"}


def measure(runs: Sequence[Run], settings: EvaluationConfig, **near: Any) -> dict[str, Any]:
    """What `toy` finds; it needs no runs. `near` are fields of `Near`."""
    return toy(near_of(near))


def toy(near: Near, width: int = TOY_WIDTH) -> dict[str, Any]:
    """h ← h + ε W relu(h) in float64, W with entries N(0, 1/d), h₀ of length √d; a looped stack
    repeats one W, a deep one draws a W for each layer (Theorems 1 and 2, Lemma 5, Proposition 7).

    Over seeds, of states of this width d, by scaling and loops: `looped` and `deep`, ‖h_R‖/√d, and
    `change`, that of the looped stack's output by one update of random signs, over its rate; by
    stack `cosine`, the mean over pairs of different increments of 16 loops; and `gain`, ‖W v‖/‖v‖
    of vectors v ≥ 0: random, relu(h) of a loop, and the extreme ones found. By number of layers, of
    looped stacks with ε = 1/(R√U): `layers`, ‖h_R‖/√d, and the change of the output by one update
    of all layers over its rate, with the `same_signs` in all (a gradient's agree in most entries),
    which grows like √U, or with each layer's `own_signs`, whose changes are near orthogonal; and
    the least and the largest of the layers' `branches` there (`branch_sizes`).
    """
    runs = [_one_seed(width, near.loops, seed) for seed in range(near.seeds)]
    result = {
        part: {name: by_seed([run[part][name] for run in runs]) for name in curves}
        for part, curves in runs[0].items()
    }
    return {"width": width, "loops": list(near.loops), **result}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Norms and changes by loops, those that explode as far as 1,000; the norms of stacks of
    several layers, and their changes by layers and by loops; the cosines; and the gains."""
    loops = found["loops"]
    title = f"h ← h + ε W relu(h), d = {found['width']}"
    parts = ("looped", "deep", "change", "layers", "cosine", "gain", *_SIGNS)
    values = {part: {name: values_of(of) for name, of in found[part].items()} for part in parts}
    norm, moved = "‖h_R‖ / √d", "change of the output by one update / η"
    by_loops = partial(Panel, x_label="loops R", x=loops)
    both = partial(by_loops, log="xy", limits=(0.5, _HIGHEST), picture="toy")
    norms = scaling_curves(values["looped"], "looped, ")
    norms += scaling_curves(values["deep"], "not shared, ")
    changes = scaling_curves(values["change"], "looped, ")
    layers = loop_curves({int(u): of for u, of in values["layers"].items()}, "U")
    several = f"{title}, looped stacks of U layers, ε = 1/(R√U)"
    pairs = f"{title}, mean over pairs of increments of {_ANGLES_AT} loops"
    cone, gain = f"{title}, vectors v ≥ 0", "‖W v‖ / ‖v‖"
    updates = {part: np.array([*values[part].values()]) for part in _SIGNS}  # [U, seeds, R]
    roots = np.sqrt(_LAYERS)[:, None, None]
    by_layers = [
        Curve.of(f"{signs}, rate {rate}", kind, mean_of_seeds(moves[..., -1].T))
        for (part, signs), kind in zip(_SIGNS.items(), ("looped", "standard"), strict=True)
        for rate, moves in (("η", updates[part]), ("η/√U", updates[part] / roots))
    ]
    flat = loop_curves(dict(zip(_LAYERS, updates["same_signs"] / roots, strict=True)), "U")
    of_layers = f"layers U, R = {loops[-1]} loops"
    return [
        both("toy-norm", title, y_label=norm, curves=norms),
        both("toy-change", title, y_label=moved, curves=changes),
        by_loops("toy-layers", several, y_label=norm, curves=layers, log="x"),
        _bars("toy-cosines", pairs, "stack", "cosine", values["cosine"]),
        _bars("toy-gain", cone, "vector v", gain, values["gain"], log="y", levels=_CONE),
        Panel("toy-update-layers", several, of_layers, moved, _LAYERS, by_layers, log="xy"),
        by_loops("toy-update", f"{several}, rate η/√U", y_label=moved, curves=flat, log="x"),
    ]


def _bars(
    name: str, title: str, x_label: str, y_label: str, values: Mapping[str, Floats], **more: Any
) -> Panel:
    """Bars of values [seeds] by their names."""
    curve = Curve.of(y_label, "looped", mean_of_seeds(np.transpose([*values.values()])), name=name)
    axes = (x_label, y_label, range(len(values)))
    return Panel(name, title, *axes, [curve], x_names=[*values], bars=True, **more)


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
    weights: Iterable[Tensor], signs: Iterable[Tensor], start: Tensor, loops: Tensor, scales: Tensor
) -> Tensor:
    """∂h/∂η [C, d] at η = 0 of the last states of `run` with W + η S/√d for each layer's weights W
    and signs S, [d, d] each."""
    h, change = start.repeat(len(loops), 1), start.new_zeros(len(loops), len(start))
    for t, layer, direction in zip(range(int(loops.max())), weights, signs, strict=False):
        active = t < loops
        state, scale = h[active], scales[active, None]
        moved = state.relu() @ direction.T / math.sqrt(len(start))
        change[active] += scale * ((change[active] * (state > 0)) @ layer.T + moved)
        h[active] += scale * (state.relu() @ layer.T)
    return change


def branch_sizes(stack: Sequence[Tensor], start: Tensor, loops: int) -> Tensor:
    """‖r‖/√d of each layer [U] of a looped stack with ε = 1/(R√U), r the mean over loops of what
    the layer's branch adds before ε."""
    h, scale = start, residual_scale("factored", loops, len(stack))
    sums = start.new_zeros(len(stack), len(start))
    for _ in range(loops):
        for place, layer in enumerate(stack):
            branch = layer @ h.relu()
            sums[place] += branch
            h = h + scale * branch
    return _lengths(sums / loops)


def mean_cosine(weights: Iterable[Tensor], start: Tensor, count: int, scale: float) -> float:
    """The mean cosine over pairs of different increments W relu(h) among the first `count`."""
    h, units = start, list[Tensor]()
    for layer in islice(weights, count):
        increment = layer @ h.relu()
        units.append(increment / torch.linalg.vector_norm(increment))
        h = h + scale * increment
    cosines = torch.stack(units) @ torch.stack(units).T
    return float((cosines.sum() - cosines.trace()) / (count * (count - 1)))


def extreme(weights: Tensor, start: Tensor, largest: bool) -> Tensor:
    """The vector v ≥ 0 [d] of the largest, or smallest, gain found from relu(start): a local
    extremum, by v ← relu(M v)/‖relu(M v)‖ with M = WᵀW, or ‖W‖² − WᵀW, of which no step lowers
    vᵀMv (Montanari and Richard 2016 for the largest)."""
    matrix = weights.T @ weights
    if not largest:
        matrix = torch.linalg.eigvalsh(matrix)[-1] * torch.eye(len(start)).to(matrix) - matrix
    vector = start.relu()
    for _ in range(_POWERS):
        vector = (matrix @ vector).relu()
        vector /= torch.linalg.vector_norm(vector)
    return vector


def _one_seed(width: int, loops: Sequence[int], seed: int) -> dict[str, dict[str, Any]]:
    """The curves of one seed, by part and name."""
    source = layers(width, seed)
    start, *stack = islice(source, 1 + max(_ANGLES_AT, *_LAYERS))
    shared, counts = repeat(stack[0]), torch.tensor(loops).repeat(len(LABELS))
    scales = _scales([(scaling, r, 1) for scaling in LABELS for r in loops])
    generator = Generator().manual_seed(2**62 + seed)  # a stream of random numbers of its own
    signs = [
        torch.randint(2, (width, width), generator=generator).double().mul_(2).sub_(1)
        for _ in range(max(_LAYERS))
    ]
    ends = {
        "looped": run(shared, start, counts, scales),
        "deep": run(chain(stack, source), start, counts, scales),
        "change": derivative(shared, repeat(signs[0]), start, counts, scales),
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
    scales = _scales([(scaling, _ANGLES_AT, 1) for scaling in ("linear", "none")])
    linear, none = run(shared, start, torch.tensor([_ANGLES_AT - 1] * 2), scales).relu()
    vectors = {
        "smallest found": extreme(stack[0], start, largest=False),
        "random": start.relu(),
        f"loop {_ANGLES_AT}, linear": linear,
        f"loop {_ANGLES_AT}, none": none,
        "largest found": extreme(stack[0], start, largest=True),
    }
    curves["gain"] = {
        name: float(torch.linalg.vector_norm(stack[0] @ v) / torch.linalg.vector_norm(v))
        for name, v in vectors.items()
    }
    for u in _LAYERS:  # a step is a layer here: R loops are R U steps
        several = start, u * torch.tensor(loops), _scales([("factored", r, u) for r in loops])
        ends = {
            "layers": run(cycle(stack[:u]), *several),
            "same_signs": derivative(cycle(stack[:u]), repeat(signs[0]), *several),
            "own_signs": derivative(cycle(stack[:u]), cycle(signs[:u]), *several),
        }
        for part, states in ends.items():
            curves.setdefault(part, {})[str(u)] = _lengths(states).tolist()
        sizes = [branch_sizes(stack[:u], start, r).aminmax() for r in loops]
        curves.setdefault("branches", {})[str(u)] = torch.tensor(sizes).tolist()
    return curves


def _scales(rows: Sequence[tuple[str, int, int]]) -> Tensor:
    """ε of each (scaling, loops, layers)."""
    return torch.tensor([residual_scale(*row) for row in rows], dtype=torch.float64)


def _lengths(states: Tensor) -> Tensor:
    """The length of states [C, d] over √d: [C]."""
    return torch.linalg.vector_norm(states, dim=1) / math.sqrt(states.shape[1])


def update_ratio_by_layers(evidence: Evidence) -> Estimate:
    """The largest change by one update over the smallest, of all numbers of layers at the most
    loops."""
    result = evidence.result("residual_scaling_toy")
    return _largest_over_smallest(result, _changes(result)[..., -1])


def update_ratio_by_loops(evidence: Evidence) -> Estimate:
    """The largest change by one update over the smallest, of all numbers of loops at the most
    layers."""
    result = evidence.result("residual_scaling_toy")
    return _largest_over_smallest(result, _changes(result)[-1].T)


def _changes(result: Mapping[str, Any]) -> Floats:
    """The changes by one update with the same signs in all layers and a rate ∝ 1/√U, [U, seeds,
    R]."""
    by_layers = result["same_signs"].items()
    return np.stack([values_of(changes) / int(layers) ** 0.5 for layers, changes in by_layers])


def branch_spread(evidence: Evidence) -> Estimate:
    """The largest branch of any number of layers and loops over the smallest."""
    result = evidence.result("residual_scaling_toy")
    curves = [values_of(curve) for curve in result["branches"].values()]
    sizes = np.stack(curves).transpose(0, 2, 3, 1)  # [U, R, 2, seeds]
    return _largest_over_smallest(result, sizes.reshape(-1, sizes.shape[-1]))


def _largest_over_smallest(result: Mapping[str, Any], values: Floats) -> Estimate:
    """The largest over the smallest of values [cells, seeds] of new models, seed by seed."""
    estimate = over_seeds(values.max(0) / values.min(0), log=True)
    return estimate._replace(steps=0, size=f"d = {result['width']}")
