"""Residual norm, gradient norm of the first MLP and loss of LT and FLT in training, by loops (arXiv
2605.18797, Figures 2 and 3), on linear regression in context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from looplab.evaluation.figures import Curve, Pictures, name_curves, outer_labels
from looplab.evaluation.style import style_of_number
from looplab.evaluation.tables import Part, Table
from looplab.training.run_folder.metrics import smoothed

from ..population import measured
from .regression import DIMS
from .settings import StabilitySettings
from .tables import Floats, number
from .variants import all_variants
from .verdict import DECAY

VARIANTS = ("LT", "FLT")
_EVERY = 10  # steps between the points of a curve; the last step is always one
# Panels; for each line its name in metrics.jsonl, and whether it is dashed.
_PANELS = {
    "loss, smoothed": {"loss": False},
    "residual norm (first loop dashed)": {"last_residual": False, "first_residual": True},
    "gradient norm of the first MLP\n(before clipping dashed)": {
        "mlp_grad_norm_clipped": False,
        "mlp_grad_norm": True,
    },
}


class FullyLooped(TypedDict):
    """For each variant, number of loops and metric the smoothed curve [points], the mean over the
    seeds that are finite there, None if there is none; at `steps`, counted from 1."""

    steps: list[int]
    loops: list[int]
    rate: float
    seeds: list[int]
    curves: dict[str, dict[str, dict[str, list[float | None]]]]


def measure(settings: StabilitySettings) -> FullyLooped:
    """Train what is not trained yet; the curves."""
    runs = all_variants(settings, VARIANTS)
    measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    curves: dict[str, dict[str, dict[str, list[float | None]]]] = {name: {} for name in VARIANTS}
    steps = [*range(_EVERY, settings.steps, _EVERY), settings.steps]
    for (name, loops), population in runs.items():
        curves[name][str(loops)] = {
            metric: _mean(population.curve(metric)[:, 0] / (DIMS if metric == "loss" else 1), steps)
            for lines in _PANELS.values()
            for metric in lines
        }
    return {
        "steps": steps,
        "loops": list(settings.all_loops),
        "rate": settings.all_rates[0],
        "seeds": list(settings.all_seeds),
        "curves": curves,
    }


def report(result: FullyLooped) -> list[Part]:
    """The final value of every curve."""
    names = [metric for lines in _PANELS.values() for metric in lines]
    title = (
        f"at step {result['steps'][-1]}, smoothed, mean of {len(result['seeds'])} seeds, "
        f"rate {result['rate']:g}"
    )
    rows = []
    for variant, by_loops in result["curves"].items():
        for K, curves in by_loops.items():
            final_values = [curves[name][-1] for name in names]
            cells = ["-" if value is None else number(value) for value in final_values]
            rows.append([f"{variant}, {K}", *cells])
    return [title, Table(["", *names], rows)]


def draw(result: FullyLooped, pictures: Pictures, name: str) -> None:
    """A row for each variant, a column for each kind of metric, a colour for each K."""
    steps = result["steps"]
    marker = "o" if len(steps) == 1 else None
    columns: dict[str, Curve] = {}
    figure, grid = pictures.grid(len(VARIANTS), len(_PANELS), 3.6, 3.0, share_x=True, share_y="col")
    for row, (variant, by_loops) in zip(grid, result["curves"].items(), strict=True):
        for axes, (title, lines) in zip(row, _PANELS.items(), strict=True):
            axes.set_title(f"{variant}: {title}", fontsize="small")
            for K, curves in by_loops.items():
                for metric, dashed in lines.items():
                    label = None if dashed else f"K = {K}"
                    values = np.array(curves[metric], dtype=np.float64)
                    style = {**style_of_number(int(K)), "linestyle": "--" if dashed else "-"}
                    axes.plot(steps, values, label=label, linewidth=1.2, marker=marker, **style)
                    columns[f"{variant}_K{K}_{metric}"] = {"mean": curves[metric]}
            axes.set_yscale("log")
    outer_labels(grid.flat, x="step")
    pictures.title(figure, f"linear regression in context, rate {result['rate']:g}")
    name_curves(figure)
    pictures.save(figure, name, "step", steps, columns)


def _mean(values: Floats, steps: Sequence[int]) -> list[float | None]:
    """The mean over the finite seeds of smoothed curves [steps, seeds], at these steps."""
    selected = smoothed(values, DECAY)[np.array(steps) - 1]
    return [
        float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else None for row in selected
    ]
