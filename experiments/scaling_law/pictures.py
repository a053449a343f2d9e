"""The picture of a fitted scaling law: losses by size, a panel for each r, and the residuals.

draw_scaling(table, law, pictures)                # scaling_law.png and .csv
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from looplab.evaluation.figures import Curve, Pictures, name_curves, outer_labels
from looplab.evaluation.style import styles_in_order

from .problem import Law
from .table import Floats, ScalingTable

_MAX_LABELS = 8  # of a legend


def draw_scaling(
    table: ScalingTable, law: Law, pictures: Pictures, not_determined: Sequence[str] = ()
) -> None:
    """Above: measured losses, the law at the same sizes and data joined by lines, and the minimum
    of each parabola in log N. Below: log L minus the law's, in per cent. The title names the
    parameters that are `not_determined`.

    A curve is the models of one r and budget, or of one r and D if the table has no budget; of one
    r, if each model would be its own curve. The CSV has a row for each model.
    """
    grouping = _grouping(table)
    curves = table.groups(["r", *grouping])
    colours = table.groups(grouping) if grouping else np.zeros(len(table), dtype=np.intp)
    styles = styles_in_order(int(colours.max()) + 1)
    predicted = law.loss(table)
    residuals = 100 * np.log(table.loss / predicted)
    minima = _minima(table, curves)
    panels = np.unique(table.r)
    figure, grid = pictures.grid(
        2, len(panels), 2.5, 2.8, share_x=True, share_y="row", heights=(2, 1)
    )
    for r, (above, below) in zip(panels, grid.T, strict=True):
        for curve in np.unique(curves[table.r == r]):
            rows = np.flatnonzero(curves == curve)
            rows = rows[np.argsort(table.parameters[rows], kind="stable")]
            color, sizes = styles[int(colours[rows[0]])]["color"], table.parameters[rows]
            points: dict[str, Any] = {"marker": "o", "linestyle": "", "fillstyle": "none"}
            points |= {"color": color, "markersize": 4}
            above.plot(sizes, predicted[rows], color=color)
            above.plot(sizes, table.loss[rows], **points)
            above.plot(*minima[rows[0]], "*", color=color, markersize=10)
            below.plot(sizes, residuals[rows], **points)
        above.set_title(f"r = {r:g}")
        below.axhline(0, color="grey", linewidth=0.8)
    grid[0, 0].set_xscale("log")
    _label_axes(grid)
    stars = "" if np.isnan(minima).all() else "; stars: lowest points of parabolas"
    note = f"\nnot determined: {', '.join(not_determined)}" if not_determined else ""
    pictures.title(figure, f"circles: measured; lines: the law{stars}{note}")
    _legend(figure, grid[0, -1], table, grouping, colours)
    order = np.lexsort((table.parameters, curves))
    pictures.save(
        figure,
        "scaling_law",
        "N",
        table.parameters[order].tolist(),
        {
            "model": _parts(order, r=table.r, D=table.D, curve=curves),
            "loss": _parts(order, measured=table.loss, law=predicted),
            "residual": _parts(order, percent=residuals),
            "minimum": _parts(order, N=minima[:, 0], loss=minima[:, 1]),
        },
    )


def _label_axes(grid: NDArray[Any]) -> None:
    """Parameters along x; the two rows' names along y, at each panel where the rows have become
    columns."""
    turned = grid[0, 0].get_gridspec().nrows != len(grid)
    for row, label in zip(grid, ("loss", "less the law's, %"), strict=True):
        for axes in row if turned else row[:1]:
            axes.set_ylabel(label)
    grid[0, 0].xaxis.set_major_formatter(EngFormatter(sep=""))
    outer_labels(grid.flat, x="parameters N")


def _grouping(table: ScalingTable) -> list[str]:
    """The column that the models of a curve share beside r, if any."""
    grouping = ["budget"] if "budget" in table.labels else ["D"]
    all_single = len(np.unique(table.groups(["r", *grouping]))) == len(table)
    return [] if all_single else grouping


def _minima(table: ScalingTable, curves: NDArray[np.intp]) -> Floats:
    """Size and loss at the minimum of each row's curve, [rows, 2]; NaN if it has none."""
    minima = np.full((len(table), 2), np.nan)
    for curve in np.unique(curves):
        mask = curves == curve
        lowest = parabola_minimum(table.parameters[mask], table.loss[mask])
        if lowest is not None:
            minima[mask] = lowest
    return minima


def parabola_minimum(sizes: Floats, losses: Floats) -> tuple[float, float] | None:
    """Size and loss at the minimum of the least-squares parabola in log N; None for fewer than
    three sizes, or if it has no minimum between the ends."""
    if len(np.unique(sizes)) < 3:
        return None
    centre = np.log(sizes).mean()
    curvature, slope, level = np.polyfit(np.log(sizes) - centre, losses, 2)
    if curvature <= 0:
        return None
    lowest = -slope / (2 * curvature)
    if not np.log(sizes).min() <= lowest + centre <= np.log(sizes).max():
        return None
    return math.exp(lowest + centre), float(level - slope**2 / (4 * curvature))


def _legend(
    figure: Figure, axes: Axes, table: ScalingTable, grouping: list[str], colours: NDArray[np.intp]
) -> None:
    """A label for each colour, if there is a grouping with few values."""
    numbers, first = np.unique(colours, return_index=True)
    styles = styles_in_order(len(numbers))
    if not grouping or len(numbers) > _MAX_LABELS:
        return
    (name,) = grouping
    for number, row in zip(numbers, first, strict=True):
        value = table.labels[name][row] if name in table.labels else f"{table.D[row]:.3g}"
        axes.plot([], [], label=f"{name} {value}", **styles[int(number)])
    name_curves(figure, axes)


def _parts(order: NDArray[np.intp], **columns: NDArray[Any]) -> Curve:
    return {
        name: [None if np.isnan(value) else value for value in values[order].tolist()]
        for name, values in columns.items()
    }
