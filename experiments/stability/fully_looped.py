"""Residual norm, gradient norm of the first MLP and loss of LT and FLT in training, by loops (arXiv
2605.18797, Figures 2 and 3), on linear regression in context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats, numbers
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.evaluation.tables import Part, Table
from looplab.training.run_folder.metrics import smoothed

from ..population import measured
from .settings import StabilitySettings
from .sweep import DIMS
from .tables import number
from .variants import all_variants
from .verdict import DECAY

VARIANTS = ("LT", "FLT")
_EVERY = 10  # steps between the points of a curve; the last step is always one
_METRICS = {  # of metrics.jsonl, and what they are
    "loss": "loss, smoothed",
    "last_residual": "residual norm, last loop",
    "first_residual": "residual norm, first loop",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
}


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """Train what is not trained yet; `curves`, for each variant, number of loops and metric: the
    smoothed curve [points], the mean over the seeds that are finite there, None if there is none;
    at `steps`, counted from 1."""
    runs = all_variants(settings, VARIANTS)
    measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    curves: dict[str, dict[str, dict[str, list[float | None]]]] = {name: {} for name in VARIANTS}
    steps = [*range(_EVERY, settings.steps, _EVERY), settings.steps]
    for (name, loops), population in runs.items():
        curves[name][str(loops)] = {
            metric: _mean(population.curve(metric)[:, 0] / (DIMS if metric == "loss" else 1), steps)
            for metric in _METRICS
        }
    return {
        "steps": steps,
        "loops": list(settings.all_loops),
        "rate": settings.all_rates[0],
        "seeds": list(settings.all_seeds),
        "curves": curves,
    }


def report(result: dict[str, Any]) -> list[Part]:
    """The final value of every curve."""
    title = (
        f"at step {result['steps'][-1]}, smoothed, mean of {len(result['seeds'])} seeds, "
        f"rate {result['rate']:g}"
    )
    rows = []
    for variant, by_loops in result["curves"].items():
        for K, curves in by_loops.items():
            final_values = [curves[name][-1] for name in _METRICS]
            cells = ["-" if value is None else number(value) for value in final_values]
            rows.append([f"{variant}, {K}", *cells])
    return [title, Table(["", *_METRICS], rows)]


def panels(result: dict[str, Any]) -> list[Panel]:
    """A panel for each variant and metric, a curve for each number of loops; without intervals."""
    found = []
    for variant, by_loops in result["curves"].items():
        for metric, label in _METRICS.items():
            curves = [
                Curve.of(f"K = {K}", "loops", without_interval(numbers(of[metric])), number=int(K))
                for K, of in by_loops.items()
            ]
            name = f"fully-looped-{variant}-{metric.replace('_', '-')}"
            title = f"{variant}, {len(result['seeds'])} seeds, rate {result['rate']:g}"
            found.append(
                Panel(
                    name, title, "step", label, result["steps"], curves, log="y",
                    picture="fully_looped",
                )
            )  # fmt: skip
    return found


def _mean(values: Floats, steps: Sequence[int]) -> list[float | None]:
    """The mean over the finite seeds of smoothed curves [steps, seeds], at these steps."""
    selected = smoothed(values, DECAY)[np.array(steps) - 1]
    return [
        float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else None for row in selected
    ]
