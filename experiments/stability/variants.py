"""The loops of the Fully Looped Transformer on linear regression in context: their errors, when
they leave the plateau, and whether they collapse (arXiv 2605.18797)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from looplab.conf.schema import ModelConfig, TrainingConfig
from looplab.evaluation.figures import Pictures, band, name_curves, note_level, ticks_at
from looplab.evaluation.style import style_of
from looplab.evaluation.tables import Part, Table
from looplab.models.loops.connected import CONNECTIVITIES
from looplab.training.assemble import build_task

from ..population import Errors, Population, measured
from .regression import regression_runs
from .settings import StabilitySettings
from .tables import mean_and_range
from .verdict import collapse, plateau_exit

_HEAD = ("", "K", "error", "of the initial", "plateau left at step", "collapsed")
# Of the initial error: a smoothed loss below it has left the plateau, and the ASKED variants must
# end below it.
LEFT = 0.7
ASKED, ASKED_LOOPS, ASKED_STEPS = ("LT_i", "FLT", "FLT_res"), 4, 2000
_LAYERS = 2
_CLIP, _DECAY = 1.0, 0.2  # the paper's


class Cell(TypedDict):
    """A variant with K loops, of each seed: `error` and `initial` error, `left`, the step that
    leaves the plateau (None: never), and `collapse`, the reason (empty: it did not)."""

    error: list[float | None]
    initial: list[float]
    left: list[int | None]
    collapse: list[str]


class Variants(TypedDict):
    """`plain`, the errors [seeds] of one loop, the same for all variants; the cells by variant and
    K. `learned`: whether the ASKED variants got below 0.7 of their initial error; empty if there
    are too few steps."""

    loops: list[int]
    rate: float
    seeds: list[int]
    steps: int
    plain: list[float | None]
    left_below: float
    asked_loops: int
    variants: dict[str, dict[str, Cell]]
    learned: dict[str, bool]


def measure(settings: StabilitySettings) -> Variants:
    """Train what is not trained yet, and compare."""
    runs = {("LT", 1): variant_runs(settings, "LT", 1)} | all_variants(settings, CONNECTIVITIES)
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    (plain,) = results[0]["errors"]
    errors = [error for error in plain if error is not None]
    reference = float(np.mean(errors)) if errors else None
    variants: dict[str, dict[str, Cell]] = {name: {} for name in CONNECTIVITIES}
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


def summed_up(population: Population, result: Errors, plain: float | None) -> Cell:
    """The cell of a population of one rate; `plain` is the mean error of one loop, if known."""
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


def _learned(variants: Mapping[str, Mapping[str, Cell]]) -> dict[str, bool]:
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


def report(result: Variants) -> list[Part]:
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


def draw(result: Variants, pictures: Pictures, name: str) -> None:
    """Error by loops, a curve for each variant with the least and most of its seeds."""
    loops, columns = result["loops"], {}
    figure = pictures.figure()
    axes = figure.subplots()
    for variant, by_loops in result["variants"].items():
        cells = [by_loops[str(K)] for K in loops]
        columns[variant] = mean_and_range([cell["error"] for cell in cells]) | {
            "left_at": mean_and_range([cell["left"] for cell in cells])["mean"],
            "never_left": [cell["left"].count(None) for cell in cells],
            "collapsed": [sum(map(bool, cell["collapse"])) for cell in cells],
        }
        band(axes, loops, columns[variant], variant, style_of(variant))
    errors = [error for error in result["plain"] if error is not None]
    if errors:
        note_level(axes, float(np.mean(errors)), "one loop")
    ticks_at(axes, loops)
    axes.set_xlabel("loops K")
    axes.set_ylabel("error / error of predicting zero")
    pictures.title(figure, f"linear regression in context, {result['steps']:,} steps")
    name_curves(figure)
    pictures.save(figure, name, "loops", loops, columns)


def _texts(cell: Cell) -> list[str]:
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
