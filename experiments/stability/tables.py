"""Summaries over seeds: means with standard errors, slopes, rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from .settings import WIDTH, Init, StabilitySettings

Floats = NDArray[np.float64]
# The residual scalings of arXiv 2606.18524.
LABELS = {"none": "ε = 1 (none)", "sqrt": "ε = 1/√R (sqrt)", "linear": "ε = 1/R (linear)"}


_Values = TypeVar("_Values")  # a number, or lists of numbers of one shape


class Means(TypedDict, Generic[_Values]):
    """Means over seeds with their standard errors."""

    mean: _Values
    standard_error: _Values


class OverSeeds(Means[_Values]):
    """The same with the values of each seed."""

    by_seed: list[_Values]


class Description(TypedDict):
    """A small transformer; `what` is for titles."""

    init: dict[str, str | float]
    what: str
    loops: list[int]
    seeds: int
    seed: int


def over_seeds(values: Floats) -> OverSeeds[Any]:
    """The mean of values [seeds, ...] and its standard error, and the values themselves, as
    lists."""
    errors = values.std(0, ddof=1) / np.sqrt(len(values))
    return {
        "mean": values.mean(0).tolist(),
        "standard_error": errors.tolist(),
        "by_seed": values.tolist(),
    }


def description(settings: StabilitySettings, init: Init) -> Description:
    """The description in the result of a small transformer."""
    return {
        "init": {"name": settings.init_name, "width": WIDTH, **init._asdict()},
        "what": f"{settings.init_name.replace('_', '-')} (U = {init.layers}, d = {WIDTH})",
        "loops": list(settings.all_loops),
        "seeds": len(settings.all_seeds),
        "seed": settings.seed,
    }


def slopes(loops: Sequence[int], values: Floats, min_loops: int) -> Floats:
    """The slope of log values [..., loops] over log loops, from `min_loops` on, by least squares,
    [...]."""
    mask = np.array(loops) >= min_loops
    x = np.log(np.array(loops, dtype=np.float64)[mask])
    x -= x.mean()
    return np.log(values[..., mask]) @ x / (x @ x)


def at_step(curve: Means[list[list[float]]], step: int) -> Means[list[float]]:
    """A curve over loops and steps at one step."""
    return {
        "mean": [values[step] for values in curve["mean"]],
        "standard_error": [values[step] for values in curve["standard_error"]],
    }


def band_of(curve: Means[list[float]]) -> dict[str, list[float]]:
    """A curve with the ends of its band, one standard error either side of the mean."""
    mean, error = np.array(curve["mean"]), np.array(curve["standard_error"])
    return {"mean": mean.tolist(), "low": (mean - error).tolist(), "high": (mean + error).tolist()}


def csv_columns(curve: Means[list[float]]) -> dict[str, list[float]]:
    """The parts of a curve for its CSV."""
    return {"mean": curve["mean"], "standard_error": curve["standard_error"]}


def mean_and_range(rows: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """The mean of each row with its least and most, without None."""
    valid = [[value for value in row if value is not None] for row in rows]
    return {
        "mean": [float(np.mean(values)) if values else None for values in valid],
        "low": [min(values, default=None) for values in valid],
        "high": [max(values, default=None) for values in valid],
    }


def rows_of(
    curves: Mapping[str, Means[list[float]]],
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
