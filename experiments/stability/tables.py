"""Summaries over seeds: means with standard errors as rows of tables, slopes, and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Curve, mean_of_seeds

# The residual scalings of arXiv 2606.18524.
LABELS = {"none": "ε = 1 (none)", "sqrt": "ε = 1/√R (sqrt)", "linear": "ε = 1/R (linear)"}


def with_errors(values: Floats) -> dict[str, Any]:
    """The `mean` of values [seeds, ...], its `standard_error`, and the values themselves as
    `by_seed`, all as lists."""
    errors = values.std(0, ddof=1) / np.sqrt(len(values))
    parts = {"mean": values.mean(0), "standard_error": errors, "by_seed": values}
    return {name: part.tolist() for name, part in parts.items()}


def slopes(loops: Sequence[int], values: Floats, min_loops: int) -> Floats:
    """The slope of log values [..., loops] over log loops, from `min_loops` on, by least squares,
    [...]."""
    mask = np.array(loops) >= min_loops
    x = np.log(np.array(loops, dtype=np.float64)[mask])
    x -= x.mean()
    return np.log(values[..., mask]) @ x / (x @ x)


def at_step(curve: Mapping[str, Any], step: int) -> dict[str, list[float]]:
    """The mean and the standard error of a curve over loops and steps at one step."""
    return {part: [row[step] for row in curve[part]] for part in ("mean", "standard_error")}


def rows_of(
    curves: Mapping[str, Mapping[str, Any]],
    last: Callable[[list[float]], str] | None = None,
    form: str = ".3g",
) -> list[list[str]]:
    """For each curve a row of its means in the format `form`, and one of their standard errors;
    with a `last` column computed from the means."""
    rows = []
    for name, curve in curves.items():
        means, errors = curve["mean"], curve["standard_error"]
        rows.append([name, *(f"{mean:{form}}" for mean in means), *([last(means)] if last else [])])
        rows.append(["", *(f"±{error:.2g}" for error in errors), *([""] if last else [])])
    return rows


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def scaling_curves(values: Mapping[str, ArrayLike], before: str = "") -> list[Curve]:
    """A curve for each scaling of values [seeds, x], its label after `before`."""
    return [
        Curve.of(f"{before}{LABELS[scaling]}", scaling, mean_of_seeds(of))
        for scaling, of in values.items()
    ]


def loop_curves(loops: Sequence[int], values: ArrayLike) -> list[Curve]:
    """A curve for each number of loops of values [seeds, loops, x]."""
    return [
        Curve.of(f"R = {r}", "loops", mean_of_seeds(of), number=r)
        for r, of in zip(loops, np.array(values).swapaxes(0, 1), strict=True)
    ]
