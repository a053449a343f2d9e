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
from looplab.evaluation.statistics import Estimate, absolute, over_seeds
from looplab.models.model import residual_scale
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.run import Run

from .evidence import Evidence, highest
from .near_init import (
    LABELS,
    Near,
    by_seed,
    loop_curves,
    near_of,
    scaling_curves,
    slopes,
    values_of,
)

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
    the least and the largest of the lengths over √d of the layers' `branches` there. If the first
    layer is drawn anew, the others' branches have `moved` so far, in the mean over layers, and its
    own is `alike` by its cosine with the one before.
    """
    runs = [_one_seed(width, near.loops, seed) for seed in range(near.seeds)]
    result: dict[str, Any] = {"width": width, "loops": list(near.loops)}
    for part, curves in runs[0].items():
        result[part] = {name: by_seed([run[part][name] for run in runs]) for name in curves}
    return result


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Norms and changes by loops, those that explode as far as 1,000; the norms of stacks of
    several layers, and their changes by layers and by loops; the cosines; and the gains."""
    loops = found["loops"]
    title = f"h ← h + ε W relu(h), d = {found['width']}"
    several = f"{title}, looped stacks of U layers, ε = 1/(R√U)"
    norm = "‖h_R‖ / √d"
    moved = "change of the output by one update / η"
    by_loops = partial(Panel, x_label="loops R", x=loops)
    both = partial(by_loops, log="xy", limits=(0.5, _HIGHEST), picture="toy")
    norms = scaling_curves(_values(found, "looped"), "looped, ")
    norms += scaling_curves(_values(found, "deep"), "not shared, ")
    changes = scaling_curves(_values(found, "change"), "looped, ")
    layers = loop_curves({int(U): values for U, values in _values(found, "layers").items()}, "U")
    pairs = f"{title}, mean over pairs of increments of {_ANGLES_AT} loops"
    cosines = _values(found, "cosine")
    cone = f"{title}, vectors v ≥ 0"
    gains = _values(found, "gain")
    at_most_loops = f"layers U, R = {loops[-1]} loops"
    by_layers = _by_layers(found)
    same_signs = _over_roots(_updates(found, "same_signs"))
    flat = loop_curves(dict(zip(_LAYERS, same_signs, strict=True)), "U")
    return [
        both("toy-norm", title, y_label=norm, curves=norms),
        both("toy-change", title, y_label=moved, curves=changes),
        by_loops("toy-layers", several, y_label=norm, curves=layers, log="x"),
        _bars("toy-cosines", pairs, "stack", "cosine", cosines),
        _bars("toy-gain", cone, "vector v", "‖W v‖ / ‖v‖", gains, log="y", levels=_CONE),
        Panel("toy-update-layers", several, at_most_loops, moved, _LAYERS, by_layers, log="xy"),
        by_loops("toy-update", f"{several}, rate η/√U", y_label=moved, curves=flat, log="x"),
    ]


def _by_layers(found: Mapping[str, Any]) -> list[Curve]:
    """The changes by an update at the most loops, by the number of layers, at two rates."""
    curves = []
    for part, kind in (("same_signs", "looped"), ("own_signs", "standard")):
        updates = _updates(found, part)
        for rate, changes in (("η", updates), ("η/√U", _over_roots(updates))):
            interval = mean_of_seeds(changes[..., -1].T)
            curves.append(Curve.of(f"{_SIGNS[part]}, rate {rate}", kind, interval))
    return curves


def _values(found: Mapping[str, Any], part: str) -> dict[str, Floats]:
    """A part of the result by name, [seeds, ...]."""
    return {name: values_of(values) for name, values in found[part].items()}


def _updates(found: Mapping[str, Any], part: str) -> Floats:
    """The changes by an update with these signs, [U, seeds, R]."""
    return np.array(list(_values(found, part).values()))


def _over_roots(updates: Floats) -> Floats:
    """The changes at a rate ∝ 1/√U."""
    return np.asarray(updates / np.sqrt(_LAYERS)[:, None, None])


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


def branches(stack: Sequence[Tensor], start: Tensor, loops: int) -> Tensor:
    """r of each layer [U, d] of a looped stack with ε = 1/(R√U): the mean over loops of what the
    layer's branch adds before ε."""
    h, scale = start, residual_scale("factored", loops, len(stack))
    sums = start.new_zeros(len(stack), len(start))
    for _ in range(loops):
        for place, layer in enumerate(stack):
            branch = layer @ h.relu()
            sums[place] += branch
            h = h + scale * branch
    return sums / loops


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
    signs = _random_signs(width, seed)
    curves: dict[str, dict[str, Any]] = {}
    counts = torch.tensor(loops).repeat(len(LABELS))
    scales = _scales([(scaling, r, 1) for scaling in LABELS for r in loops])
    shared = repeat(stack[0])
    of_each_layer = chain(stack, source)
    ends = {
        "looped": run(shared, start, counts, scales),
        "deep": run(of_each_layer, start, counts, scales),
        "change": derivative(shared, repeat(signs[0]), start, counts, scales),
    }
    for part, states in ends.items():
        by_scaling = _lengths(states).view(len(LABELS), -1).tolist()
        curves[part] = dict(zip(LABELS, by_scaling, strict=True))
    curves["cosine"] = _cosines(stack, start)
    curves["gain"] = _gains(stack[0], start)
    for U in _LAYERS:
        parts = _of_layers(stack[:U], signs[:U], start, loops)
        parts |= _of_branches(stack[:U], stack[max(_LAYERS)], start, loops)
        for part, values in parts.items():
            curves.setdefault(part, {})[str(U)] = values
    return curves


def _random_signs(width: int, seed: int) -> list[Tensor]:
    """Signs of each layer's weights, from a stream of random numbers of their own."""
    generator = Generator().manual_seed(2**62 + seed)
    signs = []
    for _ in range(max(_LAYERS)):
        bits = torch.randint(2, (width, width), generator=generator)
        signs.append(bits.double().mul_(2).sub_(1))
    return signs


def _cosines(stack: Sequence[Tensor], start: Tensor) -> dict[str, float]:
    """The mean cosine of two increments, by stack and scaling."""
    shared = repeat(stack[0])
    return {
        "deep none": mean_cosine(stack, start, _ANGLES_AT, 1.0),
        "looped none": mean_cosine(shared, start, _ANGLES_AT, 1.0),
        "looped linear": mean_cosine(shared, start, _ANGLES_AT, 1 / _ANGLES_AT),
    }


def _gains(weights: Tensor, start: Tensor) -> dict[str, float]:
    """‖W v‖/‖v‖ of vectors v ≥ 0."""
    counts = torch.tensor([_ANGLES_AT - 1] * 2)
    scales = _scales([(scaling, _ANGLES_AT, 1) for scaling in ("linear", "none")])
    linear, none = run(repeat(weights), start, counts, scales).relu()
    vectors = {
        "smallest found": extreme(weights, start, largest=False),
        "random": start.relu(),
        f"loop {_ANGLES_AT}, linear": linear,
        f"loop {_ANGLES_AT}, none": none,
        "largest found": extreme(weights, start, largest=True),
    }
    gains = {}
    for name, vector in vectors.items():
        moved = torch.linalg.vector_norm(weights @ vector)
        gains[name] = float(moved / torch.linalg.vector_norm(vector))
    return gains


def _of_layers(
    stack: Sequence[Tensor], signs: Sequence[Tensor], start: Tensor, loops: Sequence[int]
) -> dict[str, Any]:
    """Lengths and changes of a looped stack of several layers, by loops."""
    U = len(stack)
    steps = U * torch.tensor(loops)  # a step is a layer here: R loops are R U steps
    scales = _scales([("factored", r, U) for r in loops])
    norm = run(cycle(stack), start, steps, scales)
    same_signs = derivative(cycle(stack), repeat(signs[0]), start, steps, scales)
    own_signs = derivative(cycle(stack), cycle(signs), start, steps, scales)
    return {
        "layers": _lengths(norm).tolist(),
        "same_signs": _lengths(same_signs).tolist(),
        "own_signs": _lengths(own_signs).tolist(),
    }


def _of_branches(
    stack: Sequence[Tensor], anew: Tensor, start: Tensor, loops: Sequence[int]
) -> dict[str, Any]:
    """The branches of a looped stack, by loops, and what they do if the first layer is drawn
    anew."""
    sizes = []
    moved = []
    alike = []
    for r in loops:
        before = branches(stack, start, r)
        after = branches([anew, *stack[1:]], start, r)
        sizes.append(_lengths(before).aminmax())
        moved.append(float(_lengths(after - before)[1:].mean()))
        alike.append(float(torch.cosine_similarity(before[0], after[0], dim=0)))
    parts = {"branches": torch.tensor(sizes).tolist(), "alike": alike}
    if len(stack) > 1:  # else no other layer moves
        parts["moved"] = moved
    return parts


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


def move_by_layers(evidence: Evidence) -> Estimate:
    """How far the other branches move when a layer is drawn anew, times √U, at the most layers over
    the fewest that have others, of the number of loops at which it is largest."""
    moved = evidence.result("residual_scaling_toy", "moved")
    by_layers = {int(layers): values_of(curve) for layers, curve in moved.items()}  # [seeds, R]
    few, many = min(by_layers), max(by_layers)
    growth = by_layers[many] / by_layers[few] * (many / few) ** 0.5
    result = evidence.result("residual_scaling_toy")
    return _new(over_seeds(growth.max(1), log=True), result)


def branch_mean(evidence: Evidence) -> Estimate:
    """The cosine of a branch with that of the layer drawn anew, the distance of its mean from 0, of
    the numbers of layers and loops at which it is largest."""
    alike = evidence.result("residual_scaling_toy", "alike")
    cosines = np.concatenate([values_of(curve).T for curve in alike.values()])  # [cells, seeds]
    estimates = [absolute(over_seeds(of_seeds)) for of_seeds in cosines]
    return _new(highest(estimates), evidence.result("residual_scaling_toy"))


def norm_growth(evidence: Evidence, stack: str, scaling: str) -> Estimate:
    """The norm of a stack, looped or deep, at the most loops over that at the fewest."""
    result = evidence.result("residual_scaling_toy")
    norms = values_of(result[stack][scaling])
    return _new(over_seeds(norms[:, -1] / norms[:, 0], log=True), result)


def norm_spread(evidence: Evidence, stack: str, scaling: str) -> Estimate:
    """The largest norm of a stack, looped or deep, over the smallest, of all numbers of loops."""
    result = evidence.result("residual_scaling_toy")
    norms = values_of(result[stack][scaling])
    return _largest_over_smallest(result, norms.T)


def norm_spread_of_layers(evidence: Evidence) -> Estimate:
    """The largest norm with ε = 1/(R√U) over the smallest, of all numbers of layers and loops."""
    result = evidence.result("residual_scaling_toy")
    norms = np.stack([values_of(curves) for curves in result["layers"].values()])  # [U, seeds, R]
    cells = norms.swapaxes(1, 2).reshape(-1, norms.shape[1])
    return _largest_over_smallest(result, cells)


def exponent_power(evidence: Evidence, stack: str, scaling: str) -> Estimate:
    """The power of R by which the logarithm of a stack's squared norm grows: 1 if the norm is
    exponential in R."""
    result = evidence.result("residual_scaling_toy")
    exponents = 2 * np.log(values_of(result[stack][scaling]))
    loops = result["loops"]
    return _new(over_seeds(slopes(loops, exponents, min(loops))), result)


def least_gain(evidence: Evidence) -> Estimate:
    """The least ‖W v‖/‖v‖ of all vectors v ≥ 0 that were tried, seed by seed."""
    result = evidence.result("residual_scaling_toy")
    return _new(over_seeds(_all_gains(result).min(0)), result)


def largest_gain(evidence: Evidence) -> Estimate:
    """The largest ‖W v‖/‖v‖ of all vectors v ≥ 0 that were tried, seed by seed."""
    result = evidence.result("residual_scaling_toy")
    return _new(over_seeds(_all_gains(result).max(0)), result)


def _all_gains(result: Mapping[str, Any]) -> Floats:
    """The gains of each vector, [vectors, seeds]."""
    return np.stack([values_of(gains) for gains in result["gain"].values()])


def largest_update_over_one_loop(evidence: Evidence, scaling: str) -> Estimate:
    """The largest change of the looped stack's output by one update, of all numbers of loops, over
    that at the fewest."""
    result = evidence.result("residual_scaling_toy")
    changes = values_of(result["change"][scaling])
    return _new(over_seeds(changes.max(1) / changes[:, 0], log=True), result)


def own_update_ratio_by_layers(evidence: Evidence) -> Estimate:
    """The largest change by one update with signs of each layer's own over the smallest, of all
    numbers of layers at the most loops, at one rate."""
    result = evidence.result("residual_scaling_toy")
    changes = _updates(result, "own_signs")
    return _largest_over_smallest(result, changes[..., -1])


def _largest_over_smallest(result: Mapping[str, Any], values: Floats) -> Estimate:
    """The largest over the smallest of values [cells, seeds] of new models, seed by seed."""
    return _new(over_seeds(values.max(0) / values.min(0), log=True), result)


def _new(estimate: Estimate, result: Mapping[str, Any]) -> Estimate:
    """The estimate with the size of the result's models, which are untrained."""
    return estimate._replace(steps=0, size=f"d = {result['width']}")
