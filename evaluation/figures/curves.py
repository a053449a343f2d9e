"""What is drawn into a picture: means with bands, levels, marks, matrices, and the names of
curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from ..bootstrap import numbers
from ..errors import ERROR_RATE
from ..results import NATS
from .axes import AnyCurve, Curve, error_scale, log_above_rounding, whole_numbers

_BAND = "band"  # the gid of bands
_WIDEST_LEGEND = 0.3  # of the picture's width
_NARROW = 4.0  # inches of a picture that has no legend beside it
_FILL, _FILL_AMONG_THREE, _FILL_AMONG_FIVE = 0.2, 0.1, 0.05  # opacity, by the number of bands
_BEHIND_TEXT: dict[str, Any] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}
_EDGE = 0.45  # opacity of a band's edge, where there are three or more


def band(
    axes: Axes,
    x: Sequence[float | None],
    curve: AnyCurve,
    label: str,
    style: Mapping[str, Any],
    points: bool = False,
) -> None:
    """Draw a mean with its interval as a band, below all lines; or `points` that no line joins."""
    mean, low, high = (numbers(curve[part]) for part in ("mean", "low", "high"))
    xs, marker = numbers(x), "o" if points or len(x) == 1 else None
    line = {**style, "linestyle": "none"} if points else style
    axes.plot(xs, mean, label=label, marker=marker, **line)
    axes.fill_between(xs, low, high, color=style["color"], linewidth=0, zorder=1, gid=_BAND)
    _thin(axes)


def _thin(axes: Axes) -> None:
    """Make the bands the fainter the more there are, with edges in place of fill, so that none
    hides a line."""
    bands = [each for each in axes.collections if each.get_gid() == _BAND]
    fill = _FILL if len(bands) < 3 else _FILL_AMONG_THREE if len(bands) < 5 else _FILL_AMONG_FIVE
    for each in bands:
        assert isinstance(each, PolyCollection)
        color = tuple(np.asarray(each.get_facecolor())[0][:3])
        each.set_facecolor(to_rgba(color, fill))
        each.set_edgecolor(to_rgba(color, _EDGE))
        each.set_linewidth(0 if len(bands) < 3 else 0.5)


def note_level(axes: Axes, height: float, text: str) -> None:
    """Draw a dotted horizontal line with its name at the right end."""
    axes.axhline(height, color="grey", linewidth=0.8, linestyle=":")
    axes.annotate(
        text,
        (1, height),
        (-2, 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        color="#555555",
        fontsize="small",
        bbox=_BEHIND_TEXT,
    )


def error_axis(
    axes: Axes, name: str, models: Sequence[AnyCurve], other_curves: Sequence[AnyCurve]
) -> None:
    """Set label and scale of an error axis, and draw a reference level: guessing, or predicting
    zero; none for nats."""
    axes.set_ylabel(name)
    error_scale(axes, name)
    if name == ERROR_RATE:
        note_level(axes, 0.5, "guessing")
    elif name != NATS:
        note_level(axes, 1, "predicting zero")
        log_above_rounding(axes, models, other_curves)


def mark_loops(axes: Axes, b: int, text: str | None = None, **style: Any) -> None:
    """Draw a dashed vertical line at the number of loops a model was trained with. The name of each
    further one is a line lower."""
    marks = sum(text.get_gid() == "loops" for text in axes.texts)
    axes.axvline(b, **{"color": "black", "linestyle": "--", "linewidth": 1, **style})
    axes.annotate(
        text or f"b = {b}",
        (b, 1),
        (4, -4 - 12 * marks),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        fontsize="small",
        color=style.get("color", "black"),
        bbox=_BEHIND_TEXT,
        gid="loops",
    )


def heat_map(
    axes: Axes, values: Sequence[Sequence[float | None]], loops: Sequence[int]
) -> AxesImage:
    """A picture of values [loops, loops] between -1 and 1, as cosines, grey at None."""
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    # Red to blue: readable for the colour-blind.
    image = axes.imshow(
        np.array([numbers(row) for row in values]),
        cmap="RdBu",
        vmin=-1,
        vmax=1,
        origin="lower",
        extent=(*edges, *edges),
    )
    axes.grid(visible=False)
    whole_numbers(axes)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return image


def name_curves(figure: Figure, *panels: Axes) -> None:
    """Add the legend of the labelled curves of these panels, by default of the last: beside a
    picture of some width where it takes at most three tenths of that, else below, where the picture
    gets taller by it."""
    by_label: dict[str, Any] = {}
    for axes in panels or figure.axes[-1:]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            by_label.setdefault(label, handle)
    if not by_label:
        return
    names, handles = list(by_label), list(by_label.values())
    width, height = figure.get_size_inches()
    legend = figure.legend(handles, names, loc="outside right center")
    most = _WIDEST_LEGEND if width >= _NARROW else 0
    if legend.get_window_extent().width <= most * figure.bbox.width:
        return
    for columns in range(len(names), 0, -1):
        legend.remove()
        legend = figure.legend(handles, names, loc="outside lower center", ncols=columns)
        if legend.get_window_extent().width <= figure.bbox.width:
            break
    figure.set_size_inches(width, height + legend.get_window_extent().height / figure.dpi)


def padded(curve: AnyCurve, length: int) -> Curve:
    """The curve padded with None to the length of a longer axis."""
    return {
        part: [*values, *[None] * (length - len(values))] for part, values in parts(curve).items()
    }


def parts(curve: AnyCurve) -> Curve:
    """The values by part: those of a TypedDict would be objects to mypy."""
    return cast(Curve, curve)
