"""The picture of a fitted scaling law: losses by size, a panel for each r, and what the law misses.

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

_MOST = 8  # curves that a legend names


def draw_scaling(
    table: ScalingTable, law: Law, folder: Path, not_determined: Sequence[str] = ()
) -> None:
    """Above: measured losses, the law at the same sizes and data joined by lines, and the minimum
    of each parabola in log N. Below: log L less the law's, in per cent. The title
    names the parameters that are `not_determined`.

    A curve is the models of one r and budget, or of one r and D where the table names no budget;
    of one r, where each model would be a curve of its own. The CSV has a row a model.
    """
    by = _curves_by(table)
    curves = table.groups(["r", *by])
    colours = table.groups(by) if by else np.zeros(len(table), dtype=np.intp)
    predicted = law.loss(table)
    missed = 100 * np.log(table.loss / predicted)
    minima = _minima(table, curves)
    with styled():
        panels = np.unique(table.r)
        figure = Figure(figsize=(1.5 + 2.5 * len(panels), 5.6))
        grid = figure.subplots(
            2, len(panels), sharex=True, sharey="row", squeeze=False, height_ratios=(2, 1)
        )
        for r, (above, below) in zip(panels, grid.T, strict=True):
            for curve in np.unique(curves[table.r == r]):
                rows = _by_size(table, curves == curve)
                style = line(int(colours[rows[0]]))
                above.plot(table.parameters[rows], predicted[rows], linewidth=1.4, **style)
                _points(above, table.parameters[rows], table.loss[rows], style)
                above.plot(*minima[rows[0]], "*", color=style["color"], markersize=10)
                _points(below, table.parameters[rows], missed[rows], style)
            above.set_title(f"r = {r:g}")
            below.set_xlabel("parameters N")
            below.axhline(0, color="grey", linewidth=0.8)
        grid[0, 0].set_xscale("log")
        for axes in grid[1]:  # a decade or less may be all there is
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.xaxis.set_minor_formatter(NullFormatter())
        grid[0, 0].set_ylabel("loss")
        grid[1, 0].set_ylabel("less the law's, %")
        stars = "" if np.isnan(minima).all() else "; stars: lowest points of parabolas"
        unknown = f"\nnot determined: {', '.join(not_determined)}" if not_determined else ""
        figure.suptitle(f"circles: measured; lines: the law{stars}{unknown}")
        _legend(figure, grid[0, -1], table, by, colours)
        order = np.lexsort((table.parameters, curves))
        save(
            figure,
            folder / "scaling_law.png",
            "N",
            table.parameters[order].tolist(),
            {
                "model": _parts(order, r=table.r, D=table.D, curve=curves),
                "loss": _parts(order, measured=table.loss, law=predicted),
                "residual": _parts(order, percent=missed),
                "minimum": _parts(order, N=minima[:, 0], loss=minima[:, 1]),
            },
        )


def _curves_by(table: ScalingTable) -> list[str]:
    """What a curve's models have in common beside r."""
    by = ["budget"] if "budget" in table.labels else ["D"]
    alone = len(np.unique(table.groups(["r", *by]))) == len(table)
    return [] if alone else by


def _minima(table: ScalingTable, curves: NDArray[np.intp]) -> Floats:
    """Size and loss at each row's curve's minimum, [rows, 2]; NaN where there is none."""
    found = np.full((len(table), 2), np.nan)
    for curve in np.unique(curves):
        there = curves == curve
        lowest = parabola_minimum(table.parameters[there], table.loss[there])
        if lowest is not None:
            found[there] = lowest
    return found


def _by_size(table: ScalingTable, there: NDArray[np.bool_]) -> NDArray[np.intp]:
    rows = np.flatnonzero(there)
    return rows[np.argsort(table.parameters[rows], kind="stable")]


def _points(axes: Axes, x: Floats, y: Floats, style: dict[str, Any]) -> None:
    axes.plot(x, y, "o", markersize=4, color=style["color"], fillstyle="none")


def _legend(
    figure: Figure, axes: Axes, table: ScalingTable, by: list[str], colours: NDArray[np.intp]
) -> None:
    """Names the colours, where they stand for something and are few."""
    numbers, first = np.unique(colours, return_index=True)
    if not by or len(numbers) > _MOST:
        return
    (name,) = by
    for number, row in zip(numbers, first, strict=True):
        value = table.labels[name][row] if name in table.labels else f"{table.D[row]:.3g}"
        axes.plot([], [], label=f"{name} {value}", **line(int(number)))
    figure.legend(loc="outside right center")


def _parts(order: NDArray[np.intp], **columns: NDArray[Any]) -> Curve:
    return {
        name: [None if np.isnan(value) else value for value in values[order].tolist()]
        for name, values in columns.items()
    }
