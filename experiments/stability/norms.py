"""The norm of a transformer's residual stream over its first ten steps, looped and not, by loops
and scaling (arXiv 2606.18524, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reloop.evaluation.figures import band, line, log_of_few_decades, save, styled, whole_numbers

from .first_steps import STEPS, all_first_steps
from .near_init import SHARED, Stack
from .settings import INITS, StabilitySettings
from .tables import LABELS, band_of, csv_columns, description, number, over_seeds, table


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """`norm`: for each sharing and scaling the root mean square of the last stream before the final
    norm, of each seed [seeds, loops, steps + 1], from initialisation on."""
    init = INITS[settings.init_name]
    seeds = settings.all_seeds
    cells = [(sharing, scaling) for sharing in SHARED for scaling in LABELS]
    tasks = [
        (init, Stack(loops, SHARED[sharing], scaling), STEPS)
        for sharing, scaling in cells
        for loops in settings.all_loops
    ]
    results = iter(all_first_steps(tasks, seeds, "norms"))
    result: dict[str, Any] = {"norm": {sharing: {} for sharing in SHARED}}
    for sharing, scaling in cells:
        norms = np.stack([next(results).norm for _ in settings.all_loops], axis=1)
        result["norm"][sharing][scaling] = over_seeds(norms)
    return description(settings, init) | {"steps": STEPS} | result


def report(result: Mapping[str, Any]) -> str:
    """The norms before the first step and after the last, and their ratio of the most loops to the
    fewest."""
    loops = result["loops"]
    lines = [
        f"root mean square of the stream before the final norm, {result['what']}, "
        f"{result['seeds']} seeds, ± standard error"
    ]
    for step in (0, result["steps"]):
        rows = []
        for sharing, curves in result["norm"].items():
            for scaling, curve in curves.items():
                mean = [values[step] for values in curve["mean"]]
                ratio = f"{mean[-1] / mean[0]:.3g}"
                rows.append([f"{sharing} {scaling}", *map(number, mean), ratio])
                errors = [f"±{values[step]:.2g}" for values in curve["standard_error"]]
                rows.append(["", *errors, ""])
        head = ["R", *map(str, loops), f"{loops[-1]} / {loops[0]}"]
        lines += ["", f"after {step} steps", *table(head, rows)]
    return "\n".join(lines)


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    path, steps = folder / f"{name}.png", list(range(result["steps"] + 1))
    columns = {}
    with styled():
        figure = Figure(figsize=(10.0, 6.0))
        grid = figure.subplots(2, 3, sharex=True, sharey=True, squeeze=False)
        for row, (sharing, curves) in zip(grid, result["norm"].items(), strict=True):
            for axes, (scaling, all_loops) in zip(row, curves.items(), strict=True):
                for index, loops in enumerate(result["loops"]):
                    curve = {part: all_loops[part][index] for part in ("mean", "standard_error")}
                    columns[f"{sharing}_{scaling}_{loops}"] = csv_columns(curve)
                    band(axes, steps, band_of(curve), f"R = {loops}", line(index))
                log_of_few_decades(axes)
                axes.set_title(f"{sharing.replace('_', '-')}, {LABELS[scaling]}", fontsize=10)
                whole_numbers(axes)
            row[0].set_ylabel("root mean square of the stream")
        for axes in grid[-1]:
            axes.set_xlabel("step")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        figure.suptitle(f"{result['what']}, mean of {result['seeds']} seeds ± standard error")
        save(figure, path, "step", steps, columns)
    return [path]
