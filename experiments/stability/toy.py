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

from looplab.evaluation.panel import Panel
from looplab.evaluation.tables import Part, Table
from looplab.models.model import residual_scale
from looplab.training.progress import Progress

from .settings import SCALINGS, StabilitySettings
from .tables import number, rows_of, scaling_curves, with_errors

WIDTH = 1024
_ANGLES_AT = 16  # loops whose increments' cosines are taken
_LAYERS = (1, 4, 12)  # of the looped stacks of more than one layer
# ‖h_R‖/√d of ten other seeds, by loops. If norms explode, means of ten seeds differ by half.
_BY_LOOPS = (1, 2, 4, 8, 16, 32, 64)
EXPECTED = {
    "deep none": (1.21, 1.48, 2.19, 4.84, 24.7, 605, 3.7e5),
    "deep sqrt": (1.21, 1.24, 1.26, 1.26, 1.27, 1.27, 1.26),
    "deep linear": (1.21, 1.12, 1.06, 1.03, 1.02, 1.01, 1.00),
    "looped none": (1.21, 1.78, 4.51, 34.8, 2.5e3, 1.4e7, 5.9e14),
    "looped sqrt": (1.21, 1.42, 1.88, 2.97, 6.14, 18.4, 92),
    "looped linear": (1.21, 1.22, 1.23, 1.24, 1.24, 1.24, 1.24),
}
_HIGHEST = 1e3  # of the figure: exploding norms leave it


def measure(settings: StabilitySettings, width: int = WIDTH) -> dict[str, Any]:
    """Over seeds, by stack and scaling, of states of this width: `norm`, ‖h_R‖/√d by loops, with
    the root of its mean square; `change`, that of the output by one update; `cosine`, the mean over
    pairs of different increments of `angles_at` loops. `layers` has ‖h_R‖/√d of looped stacks of
    several layers, by their number."""
    runs, seeds = [], settings.all_seeds
    with Progress(len(seeds), "toy", "seed") as progress:
        for seed in seeds:
            runs.append(_one_seed(width, settings.all_loops, seed))
            progress.update()

    def curves_of(part: str) -> dict[str, dict[str, Any]]:
        names = [name for name in runs[0] if name.startswith(part)]
        return {
            name.removeprefix(part): with_errors(np.array([run[name] for run in runs]))
            for name in names
        }

    norms = curves_of("norm/")
    for curve in norms.values():
        root = np.sqrt((np.array(curve["by_seed"]) ** 2).mean(0))
        curve["root_mean_square"] = root.tolist()
    return {
        "width": width,
        "seeds": len(seeds),
        "seed": settings.seed,
        "loops": list(settings.all_loops),
        "angles_at": _ANGLES_AT,
        "norm": norms,
        "change": curves_of("change/"),
        "cosine": curves_of("cosine/"),
        "layers": curves_of("layers/"),
    }


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


def _one_seed(width: int, loops: Sequence[int], seed: int) -> dict[str, float | list[float]]:
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
    curves: dict[str, float | list[float]] = {}
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


def report(result: dict[str, Any]) -> list[Part]:
    """The norms with standard errors and their expected values, and the other measurements."""
    head = ["R", *map(str, result["loops"])]
    lines: list[Part] = [
        f"h ← h + ε W relu(h), d = {result['width']}, {result['seeds']} seeds, ± standard error",
        "",
        "‖h_R‖/√d, of stacks that share W (looped) and that do not (deep)",
        Table(head, _norms(result)),
        "",
        "change of the output by one update of random signs, over its rate η",
        Table(head, rows_of(result["change"])),
        "",
        "‖h_R‖/√d of looped stacks of U layers, ε = 1/(R√U)",
        Table(head, rows_of({f"U = {u}": curve for u, curve in result["layers"].items()})),
        "",
        f"mean cosine of two different increments, R = {result['angles_at']}",
    ]
    for name, curve in result["cosine"].items():
        lines.append(f"  {name}: {curve['mean']:.3f} ± {curve['standard_error']:.3f}")
    return lines


def _norms(result: dict[str, Any]) -> list[list[str]]:
    loops, rows = result["loops"], list[list[str]]()
    for name, expected in EXPECTED.items():
        rows += rows_of({name: result["norm"][name]})
        by_loops = {r: number(value) for r, value in zip(_BY_LOOPS, expected, strict=True)}
        rows.append(["  expected", *(by_loops.get(r, "") for r in loops)])
        if name == "deep none":
            root = result["norm"][name]["root_mean_square"]
            rows.append(["  root mean square", *map(number, root)])
            rows.append(["  its expectation (3/2)^(R/2)", *(number(1.5 ** (r / 2)) for r in loops)])
    return rows


def panels(result: dict[str, Any]) -> list[Panel]:
    """Norms and changes by loops, those that explode as far as 1,000."""
    loops, title = result["loops"], f"h ← h + ε W relu(h), d = {result['width']}"

    def values(part: str, stack: str) -> dict[str, Any]:
        return {scaling: result[part][f"{stack} {scaling}"]["by_seed"] for scaling in SCALINGS}

    norms = [
        *scaling_curves(values("norm", "looped"), "looped, "),
        *scaling_curves(values("norm", "deep"), "not shared, "),
    ]
    changes, limits = scaling_curves(values("change", "looped"), "looped, "), (0.5, _HIGHEST)
    return [
        Panel(
            "toy-norm", title, "loops R", "‖h_R‖ / √d", loops, norms, log="xy", limits=limits,
            picture="toy",
        ),
        Panel(
            "toy-change", title, "loops R", "change of the output by one update / η",
            loops, changes, log="xy", limits=limits, picture="toy",
        ),
    ]  # fmt: skip
