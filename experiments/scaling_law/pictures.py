"""The picture of a fitted scaling law: losses by size, a panel for each r, and the residuals.

draw_scaling(table, law, folder)                  # scaling_law.png and .csv
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from reloop.evaluation.figures import Curve, line, save, styled

from .problem import Law
from .table import Floats, ScalingTable, parabola_minimum

_MAX_LABELS = 8  # of a legend


def draw_scaling(
    table: ScalingTable, law: Law, folder: Path, not_determined: Sequence[str] = ()
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
    predicted = law.loss(table)
    residuals = 100 * np.log(table.loss / predicted)
    minima = _minima(table, curves)
    with styled():
        panels = np.unique(table.r)
        figure = Figure(figsize=(1.5 + 2.5 * len(panels), 5.6))
        grid = figure.subplots(
            2, len(panels), sharex=True, sharey="row", squeeze=False, height_ratios=(2, 1)
        )
        for r, (above, below) in zip(panels, grid.T, strict=True):
            for curve in np.unique(curves[table.r == r]):
                rows = np.flatnonzero(curves == curve)
                rows = rows[np.argsort(table.parameters[rows], kind="stable")]
                style, sizes = line(int(colours[rows[0]])), table.parameters[rows]
                points = {"marker": "o", "linestyle": "", "markersize": 4, "fillstyle": "none"}
                points["color"] = style["color"]
                above.plot(sizes, predicted[rows], linewidth=1.4, **style)
                above.plot(sizes, table.loss[rows], **points)
                above.plot(*minima[rows[0]], "*", color=style["color"], markersize=10)
                below.plot(sizes, residuals[rows], **points)
            above.set_title(f"r = {r:g}")
            below.set_xlabel("parameters N")
            below.axhline(0, color="grey", linewidth=0.8)
        grid[0, 0].set_xscale("log")
        for axes in grid[1]:  # often a decade or less
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.xaxis.set_minor_formatter(NullFormatter())
        grid[0, 0].set_ylabel("loss")
        grid[1, 0].set_ylabel("less the law's, %")
        stars = "" if np.isnan(minima).all() else "; stars: lowest points of parabolas"
        note = f"\nnot determined: {', '.join(not_determined)}" if not_determined else ""
        figure.suptitle(f"circles: measured; lines: the law{stars}{note}")
        _legend(figure, grid[0, -1], table, grouping, colours)
        order = np.lexsort((table.parameters, curves))
        save(
            figure,
            folder / "scaling_law.png",
            "N",
            table.parameters[order].tolist(),
            {
                "model": _parts(order, r=table.r, D=table.D, curve=curves),
                "loss": _parts(order, measured=table.loss, law=predicted),
                "residual": _parts(order, percent=residuals),
                "minimum": _parts(order, N=minima[:, 0], loss=minima[:, 1]),
            },
        )


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


def _legend(
    figure: Figure, axes: Axes, table: ScalingTable, grouping: list[str], colours: NDArray[np.intp]
) -> None:
    """A label for each colour, if there is a grouping with few values."""
    numbers, first = np.unique(colours, return_index=True)
    if not grouping or len(numbers) > _MAX_LABELS:
        return
    (name,) = grouping
    for number, row in zip(numbers, first, strict=True):
        value = table.labels[name][row] if name in table.labels else f"{table.D[row]:.3g}"
        axes.plot([], [], label=f"{name} {value}", **line(int(number)))
    figure.legend(loc="outside right center")


def _parts(order: NDArray[np.intp], **columns: NDArray[Any]) -> Curve:
    return {
        name: [None if np.isnan(value) else value for value in values[order].tolist()]
        for name, values in columns.items()
    }
