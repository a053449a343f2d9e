"""The style and the elements of the project's figures; each is saved as a PNG with a CSV of its
values.

with styled():
    figure = Figure(); axes = figure.subplots()
    band(axes, loops, curve, "looped, 12 loops", style=line(0))
    save(figure, path, "loop", loops, {"model": curve})
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import (
    LogFormatter,
    LogFormatterSciNotation,
    MaxNLocator,
    NullFormatter,
    StrMethodFormatter,
)

from reloop.training.run_folder.files import write_bytes, write_with

from .bootstrap import Band, numbers
from .errors import ERROR_RATE
from .results import OfTask

# Values by part, each as long as the axis; None in place of nan.
Curve = Mapping[str, Sequence[float | None]]
AnyCurve = Band | Curve

# Okabe and Ito's palette, safe for colour-blind readers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("--", "-.", ":")
_STYLE: dict[Any, Any] = {
    "figure.figsize": (6.4, 4.0),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    # Names may contain $, so mathtext is off; `save` formats powers of ten without it.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
}
_CHARACTERS_PER_INCH = 11  # of a title, a lower bound
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def styled() -> AbstractContextManager[None]:
    """The context in which every figure is made and saved."""
    return rc_context(_STYLE)


def line(index: int, dashed: bool = False) -> dict[str, Any]:
    """Colour and dash of the index-th curve: solid for models, dashed for the baselines beside
    them."""
    dash = _DASHES[index // len(_COLOURS) % len(_DASHES)] if dashed else "-"
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": dash}


def band(
    axes: Axes, x: Sequence[float | None], curve: AnyCurve, label: str, style: Mapping[str, Any]
) -> None:
    """Draw a mean with its interval as a band."""
    mean, low, high = (numbers(curve[part]) for part in ("mean", "low", "high"))
    xs, marker = numbers(x), "o" if len(x) == 1 else None
    axes.plot(xs, mean, label=label, linewidth=1.6, marker=marker, **style)
    axes.fill_between(xs, low, high, color=style["color"], alpha=0.2, linewidth=0)


def whole_numbers(axes: Axes) -> None:
    """Set ticks at whole numbers only, for examples, loops and layers."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


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
        color="grey",
        fontsize=8,
    )


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
        fontsize=9,
        color=style.get("color", "black"),
        gid="loops",
    )


def log_above_rounding(
    axes: Axes,
    models: Sequence[AnyCurve],
    other_curves: Sequence[AnyCurve],
    max_height: float = math.inf,
) -> None:
    """Set a log scale from a decade below the least error of a model up to `max_height`: exact
    solvers reach rounding error, which would squeeze all other curves."""
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    means = np.concatenate([numbers(curve["mean"]) for curve in models])
    highs = np.concatenate([numbers(curve["high"]) for curve in (*models, *other_curves)])
    min_height = min(means[means > 0].min(), 0.1) / 10
    axes.set_ylim(min_height, min(np.nanmax(highs) * 1.5, max_height))


def error_axis(
    axes: Axes, name: str, models: Sequence[AnyCurve], other_curves: Sequence[AnyCurve]
) -> None:
    """Set label and scale of an error axis, and draw a reference level: guessing, or predicting
    zero."""
    axes.set_ylabel(name)
    error_scale(axes, name)
    if name == ERROR_RATE:
        note_level(axes, 0.5, "guessing")
    else:
        note_level(axes, 1, "predicting zero")
        log_above_rounding(axes, models, other_curves)


def error_scale(axes: Axes, name: str) -> None:
    """Show rates from 0, all other errors on a log scale."""
    if name == ERROR_RATE:
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")


def log_of_few_decades(axes: Axes) -> None:
    """Set a log scale with plain labels, for values within a decade or two."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(_PlainNumbers(minor_thresholds=(2, 0.5)))


def legend_beside(axes: Axes) -> None:
    """Place the legend to the right of the axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def save(
    figure: Figure,
    path: Path,
    axis: str,
    x: Sequence[float | str | None],
    curves: Mapping[str, AnyCurve],
) -> None:
    """Write the PNG at `path` and a CSV of its values beside it: the axis, then the parts of each
    curve."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for axes in figure.axes:
        _plain_powers(axes.xaxis)
        _plain_powers(axes.yaxis)
    _wrap_title(figure)
    write_with(path, lambda file: figure.savefig(file, format="png"))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([axis, *(f"{name}_{part}" for name in curves for part in curves[name])])
    columns = [values for curve in curves.values() for values in parts(curve).values()]
    writer.writerows(zip(x, *columns, strict=True))
    write_bytes(path.with_suffix(".csv"), text.getvalue().encode())


def _wrap_title(figure: Figure) -> None:
    """Break the lines of the title that are wider than the picture."""
    width = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    if lines := figure.get_suptitle().splitlines():
        figure.suptitle("\n".join(textwrap.fill(line, width) for line in lines))


class _PlainNumbers(LogFormatter):
    """The labels that a log scale has room for, in the form 0.4 rather than 4e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


class _PowersOfTen(LogFormatterSciNotation):
    """A log scale's labels in plain text: 2×10⁻¹."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        text = str(super().__call__(x, pos))
        text = text.removeprefix(r"$\mathdefault{").removesuffix("}$").replace(r"\times", "×")
        number, _, exponent = text.partition("^")
        return number + exponent.strip("{}").translate(_SUPERSCRIPTS)


def _plain_powers(axis: Axis) -> None:
    for formatter, set_formatter in (
        (axis.get_major_formatter(), axis.set_major_formatter),
        (axis.get_minor_formatter(), axis.set_minor_formatter),
    ):
        if isinstance(formatter, LogFormatterSciNotation):
            set_formatter(_PowersOfTen(labelOnlyBase=formatter.labelOnlyBase))


def remark_lines(result: OfTask) -> str:
    """The remarks on a result's run as lines below a title."""
    return "".join(f"\n{remark}" for remark in result.get("remarks", []))


def padded(curve: AnyCurve, length: int) -> Curve:
    """The curve padded with None to the length of a longer axis."""
    return {
        part: [*values, *[None] * (length - len(values))] for part, values in parts(curve).items()
    }


def parts(curve: AnyCurve) -> Curve:
    """The values by part: those of a TypedDict would be objects to mypy."""
    return cast(Curve, curve)
