"""Numbers of several seeds put together: means with standard errors, slopes, tables of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from .settings import WIDTH, Init, StabilitySettings

Floats = NDArray[np.float64]
# Of residual scalings, arXiv 2606.18524's three.
LABELS = {"none": "ε = 1 (none)", "sqrt": "ε = 1/√R (sqrt)", "linear": "ε = 1/R (linear)"}
SCALINGS = tuple(LABELS)


def over_seeds(values: Floats) -> dict[str, Any]:
    """The mean of values [seeds, ...] and its standard error, and the values themselves, as
    lists."""
    errors = values.std(0, ddof=1) / np.sqrt(len(values))
    return {
        "mean": values.mean(0).tolist(),
        "standard_error": errors.tolist(),
        "by_seed": values.tolist(),
    }


def described(settings: StabilitySettings, init: Init) -> dict[str, Any]:
    """What a result of a small transformer says of itself: also `what`, for titles."""
    return {
        "init": {"name": settings.init_name, "width": WIDTH, **init._asdict()},
        "what": f"{settings.init_name.replace('_', '-')} (U = {init.layers}, d = {WIDTH})",
        "loops": list(settings.all_loops),
        "seeds": len(settings.all_seeds),
        "seed": settings.seed,
    }


def slopes(loops: Sequence[int], values: Floats, least: int) -> Floats:
    """The slope of log values [..., loops] over log loops, from `least` loops on, by least squares,
    [...]."""
    far = np.array(loops) >= least
    x = np.log(np.array(loops, dtype=np.float64)[far])
    x -= x.mean()
    return np.log(values[..., far]) @ x / (x @ x)


def band_of(curve: Mapping[str, Any]) -> dict[str, list[float]]:
    """A curve with the ends of its band, one standard error either side of the mean."""
    mean, error = np.array(curve["mean"]), np.array(curve["standard_error"])
    return {"mean": mean.tolist(), "low": (mean - error).tolist(), "high": (mean + error).tolist()}


def shown(curve: Mapping[str, Any]) -> dict[str, list[float]]:
    """The parts of a curve that its CSV holds."""
    return {part: curve[part] for part in ("mean", "standard_error")}


def ends_of(rows: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """The mean of each row with its least and most, of the values that there are."""
    known = [[value for value in row if value is not None] for row in rows]
    return {
        "mean": [float(np.mean(values)) if values else None for values in known],
        "low": [min(values, default=None) for values in known],
        "high": [max(values, default=None) for values in known],
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text below a head, the first column flush left, the others right."""
    wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:], strict=True))]
        ).rstrip()
        for row in (head, *rows)
    ]


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def ticks_at(axes: Axes, x: Sequence[float]) -> None:
    """A log scale along x, with these values as its ticks."""
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())
