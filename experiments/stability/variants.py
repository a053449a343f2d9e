"""The loops of the Fully Looped Transformer on linear regression in context: their errors, when
they leave the plateau, and whether they collapse (arXiv 2605.18797)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.schema import ModelConfig, TrainingConfig
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.evaluation.tables import Part, Table
from looplab.models.loops.connected import CONNECTIVITIES
from looplab.training.assemble import build_task

from ..population import Errors, Population, measured
from .settings import StabilitySettings
from .sweep import ERROR, regression_runs
from .verdict import collapse, plateau_exit

_HEAD = ("", "K", "error", "of the initial", "plateau left at step", "collapsed")
# Of the initial error: a smoothed loss below it has left the plateau, and the ASKED variants must
# end below it.
LEFT = 0.7
ASKED, ASKED_LOOPS, ASKED_STEPS = ("LT_i", "FLT", "FLT_res"), 4, 2000
_LAYERS = 2
_CLIP, _DECAY = 1.0, 0.2  # the paper's


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """Train what is not trained yet, and compare: `plain`, the errors [seeds] of one loop, the same
    for all variants; `variants`, what `summed_up` gives by variant and K; `learned`, whether the
    ASKED variants got below 0.7 of their initial error, empty if there are too few steps."""
    runs = {("LT", 1): variant_runs(settings, "LT", 1)} | all_variants(settings, CONNECTIVITIES)
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    (plain,) = results[0]["errors"]
    errors = [error for error in plain if error is not None]
    reference = float(np.mean(errors)) if errors else None
    variants: dict[str, dict[str, Any]] = {name: {} for name in CONNECTIVITIES}
    for ((name, loops), population), result in zip(runs.items(), results, strict=True):
        if loops in settings.all_loops:
            variants[name][str(loops)] = summed_up(population, result, reference)
    return {
        "loops": list(settings.all_loops),
        "rate": settings.all_rates[0],
        "seeds": list(settings.all_seeds),
        "steps": settings.steps,
        "plain": plain,
        "left_below": LEFT,
        "asked_loops": ASKED_LOOPS,
        "variants": variants,
        # Fewer steps need not suffice.
        "learned": _learned(variants) if settings.steps >= ASKED_STEPS else {},
    }


def all_variants(
    settings: StabilitySettings, names: Sequence[str]
) -> dict[tuple[str, int], Population]:
    """The runs of some variants at all loops."""
    keys = [(name, loops) for name in names for loops in settings.all_loops]
    return {key: variant_runs(settings, *key) for key in keys}


def variant_runs(settings: StabilitySettings, name: Any, loops: int) -> Population:
    """All seeds of one variant and number of loops, from the first step: two of the paper's blocks,
    Adam, gradients clipped at 1, the rate constant and to 0 over the last fifth."""
    model = ModelConfig(n_layer=_LAYERS, injection="none", block="flt", connectivity=name)
    training = TrainingConfig(clip=_CLIP, decay=_DECAY)
    return regression_runs(settings, f"linear, {name}, K = {loops}", loops, model, training)


def summed_up(population: Population, result: Errors, plain: float | None) -> dict[str, Any]:
    """Of each seed of a population of one rate: `error` and `initial` error, `left`, the step that
    leaves the plateau (None: never), and `collapse`, the reason (empty: it did not). `plain` is the
    mean error of one loop, if known."""
    losses = population.curve("loss")[:, 0] / build_task(population.config).divisor
    (errors,), (initial,) = result["errors"], result["initial"]
    final_errors = [np.nan if error is None else error for error in errors]
    return {
        "error": errors,
        "initial": initial,
        "left": [
            plateau_exit(curve, LEFT * initial_error)
            for curve, initial_error in zip(losses.T, initial, strict=True)
        ],
        "collapse": [
            collapse(curve, error, plain)
            for curve, error in zip(losses.T, final_errors, strict=True)
        ],
    }


def _learned(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """Whether all seeds of each ASKED variant ended below 0.7 of their initial error."""
    cells = {name: variants[name].get(str(ASKED_LOOPS)) for name in ASKED}
    return {
        name: all(
            error is not None and error < LEFT * initial_error
            for error, initial_error in zip(cell["error"], cell["initial"], strict=True)
        )
        for name, cell in cells.items()
        if cell is not None
    }


def report(result: dict[str, Any]) -> list[Part]:
    """A row for each variant and number of loops, the mean of its seeds with the least and most."""
    lines: list[Part] = [
        f"linear regression in context, two layers, rate {result['rate']:g}, {result['steps']:,} "
        f"steps, {len(result['seeds'])} seeds; one loop: error {_range(result['plain'])}",
        f"(the plateau ends where the smoothed loss falls below {result['left_below']:g} of the "
        "initial error)",
        "",
    ]
    rows = [
        [name, K, *_texts(cell)]
        for name, by_loops in result["variants"].items()
        for K, cell in by_loops.items()
    ]
    lines.append(Table(_HEAD, rows))
    if result["learned"]:
        texts = (
            f"{name} {'yes' if learned else 'NO'}" for name, learned in result["learned"].items()
        )
        lines += [
            "",
            f"below {result['left_below']:g} of the initial error at K = {result['asked_loops']}, "
            f"every seed: {', '.join(texts)}",
        ]
    return lines


def panels(result: dict[str, Any]) -> list[Panel]:
    """Error by loops, a curve for each variant."""
    loops, plain = result["loops"], [error for error in result["plain"] if error is not None]
    curves = []
    for variant, cells in result["variants"].items():
        errors = [cells[str(K)]["error"] for K in loops]
        curves.append(Curve.of(variant, variant, mean_of_seeds(list(zip(*errors, strict=True)))))
    levels = {"one loop": float(np.mean(plain))} if plain else {}
    title = f"linear regression in context, two layers, {result['steps']:,} steps"
    return [Panel("variants", title, "loops K", ERROR, loops, curves, log="x", levels=levels)]


def _texts(cell: Mapping[str, Any]) -> list[str]:
    """What a table shows of a cell, under the last columns of _HEAD."""
    pairs = zip(cell["error"], cell["initial"], strict=True)
    ratios = [None if error is None else error / initial_error for error, initial_error in pairs]
    left = ", ".join("never" if step is None else f"{step}" for step in cell["left"])
    kinds = sorted(filter(None, set(cell["collapse"])))
    reasons = [f"{cell['collapse'].count(kind)} ({kind})" for kind in kinds]
    return [_range(cell["error"]), _range(ratios), left, ", ".join(reasons) or "none"]


def _range(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    if len(numbers) == 1:
        return f"{numbers[0]:.3f}"
    return f"{np.mean(numbers):.3f} ({min(numbers):.3f} to {max(numbers):.3f})"
