"""What is drawn into a picture: means with bands, levels, marks, matrices, and the names of curves;
and scales of axes, with ticks that read as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import (
    EngFormatter,
    FixedFormatter,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from ..bootstrap import Band, numbers
from ..errors import ERROR_RATE
from ..results import NATS

_BAND = "band"  # the gid of bands
_WIDEST_LEGEND = 0.3  # of the picture's width
_NARROW = 4.0  # inches of a picture that has no legend beside it
_FILL, _FILL_AMONG_THREE, _FILL_AMONG_FIVE = 0.2, 0.1, 0.05  # opacity, by the number of bands
_BEHIND_TEXT: dict[str, Any] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}
_EDGE = 0.45  # opacity of a band's edge, where there are three or more

# Values by part, each as long as the axis; None in place of nan.
Curve = Mapping[str, Sequence[float | None]]
AnyCurve = Band | Curve
_MOST_LABELS = 6  # of an axis
_MOST_DECADES = 8  # for which the numbers between powers of ten have ticks
_PLAIN = (1e-4, 1e5)  # numbers that are written without a power of ten
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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


def whole_numbers(axes: Axes) -> None:
    """Set ticks at whole numbers only, for examples, loops and layers."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))


def ticks_at(axes: Axes, x: Sequence[float]) -> None:
    """A log scale along x, with these values as its ticks."""
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())


def outer_labels(panels: Iterable[Axes], x: str = "", y: str = "") -> None:
    """Label the axes at the lower and the left edge of a picture of several panels."""
    for axes in panels:
        place = axes.get_subplotspec()
        assert place is not None
        if x and place.is_last_row():
            axes.set_xlabel(x)
        if y and place.is_first_col():
            axes.set_ylabel(y)


def log_above_rounding(
    axes: Axes,
    models: Sequence[AnyCurve],
    other_curves: Sequence[AnyCurve],
    max_height: float = math.inf,
) -> None:
    """Set a log scale from the least of the curves, at most a decade below the least error of a
    model, up to `max_height`: exact solvers reach rounding error, which would squeeze all other
    curves. The scale stays linear where no error of a model is above 0."""
    means = np.concatenate([numbers(curve["mean"]) for curve in models])
    drawn = (*models, *other_curves)
    tops = np.concatenate([numbers(curve[part]) for curve in drawn for part in ("mean", "high")])
    if not (means > 0).any():
        return
    axes.set_yscale("log")
    bottoms = np.concatenate([numbers(curve[part]) for curve in drawn for part in ("mean", "low")])
    min_height = max(min(means[means > 0].min(), 0.1) / 10, bottoms[bottoms > 0].min() / 1.5)
    axes.set_ylim(min_height, min(tops[np.isfinite(tops)].max() * 1.5, max_height))


def error_scale(axes: Axes, name: str) -> None:
    """Show rates from 0, nats as they are, all other errors on a log scale."""
    if name == ERROR_RATE:
        axes.set_ylim(bottom=0)
    elif name != NATS:
        axes.set_yscale("log")


def label_log_axis(axis: Axis) -> None:
    """Ticks of a log axis at powers of ten, within fewer than three of them also at 2 and 5 times
    these, and at whatever else gives two labels; plain numbers where these are short, or those of a
    formatter of units. Ticks that were set by hand stay."""
    if axis.get_scale() != "log" or isinstance(axis.get_major_locator(), FixedLocator):
        return
    low, high = sorted(axis.get_view_interval())
    ticks = _log_ticks(low, high, _most_labels(axis))
    if isinstance(units := axis.get_major_formatter(), EngFormatter):
        labels = [units(tick) for tick in ticks]
    elif all(_PLAIN[0] <= tick < _PLAIN[1] for tick in ticks):
        labels = [f"{tick:g}" for tick in ticks]
    else:
        labels = [_power_of_ten(tick) for tick in ticks]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter(labels))
    few = math.log10(high / low) <= _MOST_DECADES
    axis.set_minor_locator(LogLocator(subs=range(2, 10)) if few else NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _most_labels(axis: Axis) -> int:
    """As many as there is room for, by the panel's share of the picture: at least 3."""
    figure, place = axis.axes.figure, axis.axes.get_subplotspec()
    assert isinstance(figure, Figure)
    assert place is not None
    (width, height), panels = figure.get_size_inches(), place.get_gridspec()
    is_x = axis is axis.axes.xaxis
    room = width / panels.ncols / 0.6 if is_x else height / panels.nrows / 0.3
    return max(3, min(_MOST_LABELS, int(room)))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """A few numbers from low to high: at least two, at most `most`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def within(multiples: Sequence[int]) -> list[float]:
        values = (m * 10.0**power for power in range(first, last + 1) for m in multiples)
        return [value for value in values if low * 0.999 <= value <= high * 1.001]

    powers = within((1,))
    if len(powers) > 2:
        return powers[:: math.ceil(len(powers) / most)]
    for multiples in (range(1, 10), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3)):
        ticks = within(multiples)
        if 2 <= len(ticks) <= most:
            return ticks
    if len(powers) == 2:
        return powers
    ticks = [tick for tick in MaxNLocator(most - 1).tick_values(low, high) if low <= tick <= high]
    return [float(f"{tick:.4g}") for tick in ticks]


def _power_of_ten(tick: float) -> str:
    """A number as 10⁻⁵ or 2×10⁻⁵."""
    power = math.floor(math.log10(tick) + 1e-9)
    factor = float(f"{tick / 10.0**power:.3g}")
    text = "10" + str(power).translate(_SUPERSCRIPTS)
    return text if factor == 1 else f"{factor:g}×{text}"
