"""Residual scalings (arXiv 2606.18524) and the fully looped paper's loops (arXiv 2605.18797) on
four function classes: their errors by the number of loops, when they leave the plateau, and whether
they collapse."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from reloop.evaluation.figures import Pictures, band, name_curves, outer_labels, ticks_at
from reloop.evaluation.style import style_of
from reloop.evaluation.tables import Part, Table

from ..population import Population, measured
from .settings import SCALINGS, StabilitySettings
from .sweep import LOOPS, scaling_runs
from .tables import LABELS
from .variants import CELL_HEAD, LEFT, Cell, cell_columns, cell_texts, summed_up, variant_runs


class Classes(TypedDict):
    """The cells by function class, variant and K."""

    loops: list[int]
    rate: float
    seeds: list[int]
    steps: int
    left_below: float
    tasks: dict[str, dict[str, dict[str, Cell]]]


def measure(settings: StabilitySettings) -> Classes:
    """Train what is not trained yet, and compare."""
    keys = [
        (task, variant, loops)
        for task in settings.all_tasks
        for variant in settings.all_variants
        for loops in settings.all_loops
    ]
    runs = {key: class_runs(settings, *key) for key in keys}
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    tasks: dict[str, dict[str, dict[str, Cell]]] = {}
    for ((task, variant, loops), population), result in zip(runs.items(), results, strict=True):
        cells = tasks.setdefault(task, {}).setdefault(variant, {})
        cells[str(loops)] = summed_up(population, result, None)
    return {
        "loops": list(settings.all_loops),
        "rate": settings.all_rates[0],
        "seeds": list(settings.all_seeds),
        "steps": settings.steps,
        "left_below": LEFT,
        "tasks": tasks,
    }


def class_runs(settings: StabilitySettings, task: str, variant: str, loops: int) -> Population:
    """All seeds of one function class, variant and number of loops: a residual scaling on a loop
    that nothing enters and no norm touches, trained as in `sweep`, or a loop of the fully looped
    paper, trained as in `variants`."""
    if variant in SCALINGS:
        return scaling_runs(settings, LOOPS["sweep"], variant, loops, task)
    return variant_runs(settings, variant, loops, task)


def label(variant: str) -> str:
    """A variant in tables and pictures: 'ε = 1/R (linear)', or its name."""
    return LABELS.get(variant, variant)


def report(result: Classes) -> list[Part]:
    """A row for each function class, variant and number of loops, the mean of its seeds with the
    least and most."""
    first = (
        f"rate {result['rate']:g}, {result['steps']:,} steps, {len(result['seeds'])} seeds "
        f"(the plateau ends where the smoothed loss falls below {result['left_below']:g} of the "
        "initial error)"
    )
    rows = [
        [task, label(variant), K, *cell_texts(cell)]
        for task, by_variant in result["tasks"].items()
        for variant, by_loops in by_variant.items()
        for K, cell in by_loops.items()
    ]
    return [first, "", Table(["task", "variant", *CELL_HEAD], rows)]


def draw(result: Classes, pictures: Pictures, name: str) -> None:
    """Error by loops, a panel for each function class, a curve for each variant with the least and
    most of its seeds."""
    loops, columns = result["loops"], {}
    figure, panels = pictures.panels(len(result["tasks"]), 2, 5.0, 4.0)
    for axes, (task, by_variant) in zip(panels, result["tasks"].items(), strict=True):
        for variant, by_loops in by_variant.items():
            columns[f"{task}_{variant}"] = cell_columns([by_loops[str(K)] for K in loops])
            band(axes, loops, columns[f"{task}_{variant}"], label(variant), style_of(variant))
        ticks_at(axes, loops)
        axes.set_title(task.replace("_", " "))
    outer_labels(panels, x="loops", y="error / error of predicting zero")
    pictures.title(figure, f"regression in context, {result['steps']:,} steps")
    name_curves(figure)
    pictures.save(figure, name, "loops", loops, columns)
