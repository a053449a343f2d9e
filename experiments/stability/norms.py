"""The norm of a transformer's residual stream over its first ten steps, looped and not, by loops
and scaling (arXiv 2606.18524, Figure 2)."""

from __future__ import annotations

import numpy as np

from looplab.evaluation.figures import Pictures, band, name_curves, outer_labels, whole_numbers
from looplab.evaluation.style import style_of_number
from looplab.evaluation.tables import Part, Table

from .near_init import SHARED, STEPS, Stack, all_first_steps
from .settings import INITS, StabilitySettings
from .tables import (
    LABELS,
    Description,
    Means,
    OverSeeds,
    at_step,
    band_of,
    csv_columns,
    description,
    over_seeds,
    rows_of,
)


class Norms(Description):
    """`norm`: for each sharing and scaling the root mean square of the last stream before the final
    norm, [loops, steps + 1], from initialisation on."""

    steps: int
    norm: dict[str, dict[str, OverSeeds[list[list[float]]]]]


def measure(settings: StabilitySettings) -> Norms:
    """The norms of all seeds."""
    init, loops = INITS[settings.init_name], settings.all_loops
    cells = [(sharing, scaling) for sharing in SHARED for scaling in LABELS]
    tasks = [
        (init, Stack(r, SHARED[sharing], scaling), STEPS)
        for sharing, scaling in cells
        for r in loops
    ]
    results = iter(all_first_steps(tasks, settings.all_seeds, "norms"))
    norm: dict[str, dict[str, OverSeeds[list[list[float]]]]] = {sharing: {} for sharing in SHARED}
    for sharing, scaling in cells:
        norm[sharing][scaling] = over_seeds(np.stack([next(results).norm for _ in loops], axis=1))
    return {**description(settings, init), "steps": STEPS, "norm": norm}


def report(result: Norms) -> list[Part]:
    """The norms before the first step and after the last, and their ratio of the most loops to the
    fewest."""
    loops = result["loops"]
    lines: list[Part] = [
        f"root mean square of the stream before the final norm, {result['what']}, "
        f"{result['seeds']} seeds, ± standard error"
    ]
    head = ["R", *map(str, loops), f"{loops[-1]} / {loops[0]}"]
    for step in (0, result["steps"]):
        norms = {
            f"{sharing} {scaling}": at_step(curve, step)
            for sharing, curves in result["norm"].items()
            for scaling, curve in curves.items()
        }
        rows = rows_of(norms, lambda means: f"{means[-1] / means[0]:.3g}")
        lines += ["", f"after {step} steps", Table(head, rows)]
    return lines


def draw(result: Norms, pictures: Pictures, name: str) -> None:
    """Norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    steps, columns = list(range(result["steps"] + 1)), {}
    figure, grid = pictures.grid(2, 3, 3.3, 3.0, share_x=True, share_y=True)
    for row, (sharing, curves) in zip(grid, result["norm"].items(), strict=True):
        for axes, (scaling, by_loops) in zip(row, curves.items(), strict=True):
            pairs = zip(by_loops["mean"], by_loops["standard_error"], strict=True)
            for loops, (mean, error) in zip(result["loops"], pairs, strict=True):
                curve: Means[list[float]] = {"mean": mean, "standard_error": error}
                columns[f"{sharing}_{scaling}_{loops}"] = csv_columns(curve)
                band(axes, steps, band_of(curve), f"R = {loops}", style_of_number(loops))
            axes.set_yscale("log")
            axes.set_title(f"{sharing.replace('_', '-')}, {LABELS[scaling]}")
            whole_numbers(axes)
    outer_labels(grid.flat, x="step")
    figure.supylabel("root mean square of the stream", fontsize="medium")
    text = f"{result['what']}, mean of {result['seeds']} seeds ± standard error"
    pictures.title(figure, text)
    name_curves(figure, grid[0, 0])
    pictures.save(figure, name, "step", steps, columns)
