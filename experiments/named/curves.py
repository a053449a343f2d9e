"""Curves and panels: the pictures of experiments as numbers.

curve("looped, sqrt", "sqrt", over_seeds([[1.0, 2.0], [1.2, 2.4]]))
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from looplab.evaluation.bootstrap import Band, Interval, bootstrap

from .results import Curve, Panel

_RESAMPLES, _SEED = 1000, 2024
Values = Sequence[float | None]


def over_seeds(values: ArrayLike | Sequence[Values]) -> Interval:
    """The mean of values [seeds, x] at each x over the seeds that have one (None and what is not
    finite: none), nan without any; with a 90 % interval by resampling seeds, nan for one seed.

    Of two or three seeds the interval is about their range: claims judge by wider ones.
    """
    rows = np.array(values, dtype=np.float64)
    columns = [column[np.isfinite(column)] for column in rows.T]
    if rows.size and len(rows) > 1 and all(len(column) == len(rows) for column in columns):
        return bootstrap(rows, _RESAMPLES, _SEED)
    intervals = [_interval(column) for column in columns]
    return Interval(*(np.array([interval[part] for interval in intervals]) for part in range(3)))


def without_interval(values: ArrayLike) -> Interval:
    """Values [x] that have no interval."""
    mean = np.array(values, dtype=np.float64)
    return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))


def curve(
    label: str,
    kind: str,
    values: Interval | Band,
    number: float | None = None,
    *,
    name: str = "",
    b: int | None = None,
) -> Curve:
    """A curve, its values None where they are not finite; `number` and `b`: see `Curve`. `name`, by
    default made of the label, is that of its columns."""
    if isinstance(values, Interval):
        values = Interval(*(np.where(np.isfinite(part), part, np.nan) for part in values)).to_json()
    name = name or file_name(label)
    mean, low, high = values["mean"], values["low"], values["high"]
    found = Curve(name=name, label=label, kind=kind, mean=mean, low=low, high=high)
    if number is not None:
        found["number"] = number
    if b is not None:
        found["b"] = b
    return found


def panel(
    name: str,
    title: str,
    axes: tuple[str, str],
    x: Sequence[float],
    curves: Sequence[Curve],
    *,
    log: str = "",
    levels: dict[str, float] | None = None,
) -> Panel:
    """A panel with the labels of its `axes`, x and y; `log` names those on log scales ("xy")."""
    return {
        "name": name,
        "title": title,
        "x_label": axes[0],
        "y_label": axes[1],
        "x": [float(value) for value in x],
        "log_x": "x" in log,
        "log_y": "y" in log,
        "curves": list(curves),
        "levels": levels or {},
    }


def padded(values: Values, length: int) -> list[float | None]:
    """The values with None at their end, `length` in all."""
    return [*values, *[None] * (length - len(values))]


def file_name(label: str) -> str:
    """A label in letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _interval(column: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, ...]:
    if len(column) < 2:
        return (float(column[0]) if len(column) else np.nan), np.nan, np.nan
    return tuple(float(part) for part in bootstrap(column, _RESAMPLES, _SEED))
