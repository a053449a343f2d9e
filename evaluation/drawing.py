"""Panels as pictures: PNG, PDF and SVG in the sizes of a screen or a paper, with a CSV beside each.

save_panels(folder, panels, settings, title="linear, d = 10, 1,280 prompts, 90 % bands")
"""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from looplab.conf.schema import FigureSettings
from looplab.training.run_folder.files import write_bytes, write_with

from .bootstrap import numbers
from .panel import Curve, Panel
from .style import LineStyle, style_of_number, styles_of

FORMATS = ("png", "pdf", "svg")
_INCHES = {"column": 3.25, "page": 6.75}
_POINTS = {None: 10.0, "column": 7.5, "page": 8.5}  # of letters
_LINES = {None: 1.6, "column": 1.1, "page": 1.4}  # widths in points
_ONE, _TWO, _MANY = (6.4, 4.0), (5.0, 4.0), (3.3, 2.8)  # inches of a panel on a screen
_IN_PAGE = (5.2, 3.4)
_MOST_COLUMNS = 4
_NARROWEST = 1.5  # inches of a panel, before panels are moved below each other
_FEW_PANELS = 3
_TALLER = 1.15  # a column's picture's height over its width, over that of a screen's
_CHARACTERS_PER_INCH = 13  # in letters of 10 points, a lower bound
_STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": "medium",
    "axes.titleweight": "normal",
    "figure.titlesize": "large",
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "legend.fontsize": "small",
    # Names may contain $, so mathtext is off; powers of ten are written without it.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    # Letters stay letters, and the same picture is the same SVG.
    "pdf.fonttype": 42,
    "svg.hashsalt": "looplab",
}
# The same picture is the same file, whenever it is drawn.
_METADATA: dict[str, dict[str, None]] = {
    "png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None},
}  # fmt: skip
_WIDEST_LEGEND = 0.3  # of the picture's width
_NARROW = 4.0  # inches of a picture that has no legend beside it
_FILL, _FILL_AMONG_THREE, _FILL_AMONG_FIVE = 0.2, 0.1, 0.05  # opacity, by the number of bands
_EDGE = 0.45  # opacity of a band's edge, where there are three or more
_BEHIND_TEXT: dict[str, Any] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}
_LOOPS = ("loop", "layer", "increment")  # begin the label of an x that counts them
_MOST_LABELS = 6  # of an axis
_MOST_DECADES = 8  # for which the numbers between powers of ten have ticks
_PLAIN = (1e-4, 1e5)  # numbers that are written without a power of ten
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def styled(settings: FigureSettings | None = None) -> AbstractContextManager[None]:
    """The context in which every picture is drawn and saved."""
    settings = settings or FigureSettings()
    sizes = {"font.size": _POINTS[settings.width], "lines.linewidth": _LINES[settings.width]}
    narrow = {} if settings.width is None else {"figure.titlesize": "medium", "figure.dpi": 300}
    return rc_context(_STYLE | sizes | narrow)


def save_panels(
    folder: Path,
    panels: Sequence[Panel],
    settings: FigureSettings | None = None,
    title: str = "",
    remarks: Sequence[str] = (),
) -> list[Path]:
    """Draw panels into `folder`, a file for each picture and format and a CSV with its numbers;
    returns the files. `title` stands above each picture, with the remarks on its runs, which stay
    where pictures have no title. Pictures of an earlier drawing are removed."""
    settings = settings or FigureSettings()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.suffix.removeprefix(".") in (*FORMATS, "csv"):
            old.unlink()
    pictures: dict[str, list[Panel]] = {}
    for panel in panels:
        pictures.setdefault(panel.picture or panel.name, []).append(panel)
    files = []
    for name, parts in pictures.items():
        with styled(settings):
            figure = draw(parts, settings, title, remarks)
            for form in FORMATS:
                if form in settings.format:
                    files.append(folder / f"{name}.{form}")
                    write_picture(figure, files[-1], form)
        files.append(folder / f"{name}.csv")
        frames = [panel.frame() for panel in parts]
        if len(parts) > 1:
            frames = [
                frame.add_prefix(f"{part.name}: ")
                for part, frame in zip(parts, frames, strict=True)
            ]
        text = frames[0].join(frames[1:], how="outer").to_csv(index=False)
        write_bytes(files[-1], text.encode())
    return files


def draw(
    panels: Sequence[Panel], settings: FigureSettings, title: str = "", remarks: Sequence[str] = ()
) -> Figure:
    """One picture of panels beside each other, as wide as the settings say."""
    figure, grid = _figure(len(panels), settings)
    for panel, axes in zip(panels, grid, strict=True):
        panel.draw(axes)
        if len(panels) > 1:
            axes.set_title(panel.title)
    heading = ": ".join(filter(None, (title, panels[0].title if len(panels) == 1 else "")))
    lines = [*([heading] if settings.title and heading else []), *remarks]
    if lines:
        text = figure.suptitle("")
        text.set_text(
            _wrapped("\n".join(lines), figure.get_figwidth() * 10 / float(text.get_fontsize()))
        )
    _name_curves(figure, grid)
    _finish(figure)
    return figure


def svg(panel: Panel) -> str:
    """A panel as an SVG for a page that names the curves itself: the groups of curve i have
    data-curve="i", and each x of the panel has a rectangle of class hit over it, in their order."""
    with styled(), rc_context({"svg.fonttype": "none"}):
        figure = Figure(figsize=_IN_PAGE)
        axes = figure.subplots()
        draw_panel(panel, axes, panel.curves)
        _finish(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=_METADATA["svg"])
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", "", text, flags=re.S)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{3,}", _rounded, tag[0]), text)
    text = re.sub(r'id="(?:curve|band)-(\d+)"', r'data-curve="\1"', text)
    text = text.replace("fill: #ffffff", "fill: none")  # the page's own ground
    # All other ids but those of marks and clips, which are hashes of what they stand for.
    text = re.sub(
        r' id="(?![mp][0-9a-f]{10}")[^"]*"| font-family: [^;"]+;?| xmlns[^=]*="[^"]*"', "", text
    )
    text = re.sub(r"\s*\n\s*", " ", text[text.index("<svg") :]).replace("> <", "><")
    return text.replace("</svg>", f"{_hits(panel, axes)}</svg>").strip()


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _hits(panel: Panel, axes: Axes) -> str:
    """The rectangles that a page's cursor finds the values of a panel by."""
    if panel.matrix:
        return ""
    figure = axes.figure
    assert isinstance(figure, Figure)
    points = np.column_stack((numbers(panel.x), np.full(len(panel.x), axes.get_ylim()[0])))
    box, (width, height) = axes.get_window_extent(), figure.get_size_inches() * 72
    scale = width / figure.bbox.width
    xs = np.clip(axes.transData.transform(points)[:, 0], box.x0, box.x1) * scale
    edges = np.concatenate(([box.x0 * scale], (xs[1:] + xs[:-1]) / 2, [box.x1 * scale]))
    top, tall = height - box.y1 * scale, box.height * scale
    return "".join(
        f'<rect class="hit" x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" '
        f'height="{tall:.1f}"/>'
        for left, right in itertools.pairwise(edges)
    )


def _finish(figure: Figure) -> None:
    for axes in figure.axes:
        _label_log_axis(axes.xaxis)
        _label_log_axis(axes.yaxis)
        _wrap_labels(axes)


def draw_panel(panel: Panel, axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw these curves of a panel on axes, its levels and the trained loops, with labels and
    scales."""
    if panel.matrix:
        _matrix(panel, axes)
    for index, (curve, style) in enumerate(zip(curves, curve_styles(curves), strict=True)):
        if panel.bars:
            _bars(panel, axes, curves, index, style)
        else:
            _band(panel, axes, curve, style, index)
    if panel.x_label.startswith(_LOOPS):
        for row, b in enumerate(sorted({curve.b for curve in curves if curve.b is not None})):
            axes.axvline(b, color="black", linestyle="--", linewidth=1)
            axes.annotate(
                f"b = {b}", (b, 1), (4, -4 - 12 * row), xycoords=("data", "axes fraction"),
                textcoords="offset points", va="top", fontsize="small", bbox=_BEHIND_TEXT,
            )  # fmt: skip
    _scales(panel, axes, curves)
    low, high = axes.get_ylim()
    for name, height in panel.levels.items():
        if not low <= height <= high:
            continue  # its name would stand outside
        axes.axhline(height, color="grey", linewidth=0.8, linestyle=":")
        axes.annotate(
            name, (1, height), (-2, 2), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", color="#555555", fontsize="small",
            bbox=_BEHIND_TEXT,
        )  # fmt: skip
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def curve_styles(curves: Sequence[Curve]) -> list[LineStyle]:
    """By the number that a curve stands for, where it has one; else by kind."""
    by_kind = styles_of([curve.kind for curve in curves])
    return [
        style if curve.number is None else style_of_number(curve.number)
        for curve, style in zip(curves, by_kind, strict=True)
    ]


def _band(panel: Panel, axes: Axes, curve: Curve, style: Mapping[str, Any], index: int) -> None:
    """Draw a mean with its interval as a band, below all lines, the fainter the more bands there
    are, so that none hides a line; or points that no line joins."""
    xs, mean = numbers(curve.x or panel.x)[: len(curve.mean)], numbers(curve.mean)
    marker = "o" if curve.points or len(mean) == 1 else "." if curve.x else None
    line = {**style, "linestyle": "none"} if curve.points else style
    axes.plot(xs, mean, label=curve.label, marker=marker, gid=f"curve-{index}", **line)
    if not any(value is not None for value in curve.low):
        return
    low, high = numbers(curve.low), numbers(curve.high)
    if curve.points:
        axes.errorbar(
            xs, mean, (mean - low, high - mean), fmt="none", ecolor=style["color"],
            elinewidth=0.8, capsize=2,
        )  # fmt: skip
        return
    axes.fill_between(
        xs, low, high, color=style["color"], linewidth=0, zorder=1, gid=f"band-{index}"
    )
    bands = [each for each in axes.collections if str(each.get_gid()).startswith("band-")]
    fill = _FILL if len(bands) < 3 else _FILL_AMONG_THREE if len(bands) < 5 else _FILL_AMONG_FIVE
    for each in bands:
        assert isinstance(each, PolyCollection)
        color = tuple(np.asarray(each.get_facecolor())[0][:3])
        each.set_facecolor(to_rgba(color, fill))
        each.set_edgecolor(to_rgba(color, _EDGE))
        each.set_linewidth(0 if len(bands) < 3 else 0.5)


def _bars(
    panel: Panel, axes: Axes, curves: Sequence[Curve], index: int, style: Mapping[str, Any]
) -> None:
    """Draw a curve as bars beside those of the others, with its intervals; hollow where another of
    its kind comes before it."""
    curve, width = curves[index], 0.8 / len(curves)
    mean = numbers(curve.mean)
    xs = numbers(panel.x)[: len(mean)] + (index - (len(curves) - 1) / 2) * width
    interval = None
    if any(value is not None for value in curve.low):
        interval = np.nan_to_num((mean - numbers(curve.low), numbers(curve.high) - mean))
    axes.bar(
        xs, mean, width, yerr=interval, label=curve.label, gid=f"curve-{index}",
        fill=curve.kind not in [each.kind for each in curves[:index]],
        facecolor=style["color"], edgecolor=style["color"], linewidth=0.6,
        error_kw={"elinewidth": 0.8},
    )  # fmt: skip


def _matrix(panel: Panel, axes: Axes) -> None:
    """Draw values between -1 and 1, as cosines, in colours; grey where there is none."""
    x = numbers(panel.x)
    edges = (x[0] - 0.5, x[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    image = axes.imshow(  # red to blue: readable for the colour-blind
        np.array([numbers(row) for row in panel.matrix]),
        cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges),
    )  # fmt: skip
    axes.grid(visible=False)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.figure.colorbar(image, ax=axes)


def _scales(panel: Panel, axes: Axes, curves: Sequence[Curve]) -> None:
    """Set the scales of a panel's axes, with ticks that read as numbers."""
    if panel.x_names:
        axes.set_xticks(numbers(panel.x), panel.x_names, rotation=45, ha="right")
    elif "x" in panel.log and any(curve.points for curve in curves):
        axes.set_xscale("log")  # points lie anywhere: their values are no ticks
    elif "x" in panel.log:
        axes.set_xscale("log")
        axes.set_xticks(numbers(panel.x), [f"{value:g}" for value in panel.x])
        axes.xaxis.set_minor_locator(NullLocator())
    elif all(value is not None and float(value).is_integer() for value in panel.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    if "y" in panel.log:
        _log_above_rounding(panel, axes, curves)
    low, high = panel.limits
    if panel.limits != (None, None):  # else levels beyond the curves move the ends of y
        axes.set_ylim(low, None if high is None else min(high, axes.get_ylim()[1]))


def _log_above_rounding(panel: Panel, axes: Axes, curves: Sequence[Curve]) -> None:
    """Set a log scale from the least of the curves, at most a decade below the least value of one
    that is no solver's: exact solvers reach rounding error, which would squeeze all other curves.
    The scale stays linear where no such value is above 0."""

    def values(chosen: Sequence[Curve], *parts: str) -> Any:
        arrays = [numbers(getattr(curve, part)) for curve in chosen for part in parts]
        found = np.concatenate([np.empty(0), *arrays])
        return found[np.isfinite(found) & (found > 0)]

    means = values([curve for curve in curves if not curve.solver] or curves, "mean")
    if not len(means):
        return
    axes.set_yscale("log")
    tops = values(curves, "mean", "high")
    bottom = max(min(means.min(), 0.1) / 10, values(curves, "mean", "low").min() / 1.5)
    axes.set_ylim(bottom, max([tops.max(), *panel.levels.values()]) * 1.5)


def _figure(count: int, settings: FigureSettings) -> tuple[Figure, list[Axes]]:
    """An empty picture of so many panels; in a paper it has the paper's width, with fewer columns
    where panels would be too narrow, and a few panels below each other."""
    width, height = _ONE if count == 1 else _TWO if count in (2, 4) else _MANY
    columns = 2 if count == 4 else min(count, 3 if count in (3, 5, 6, 9) else _MOST_COLUMNS)
    inches = _INCHES.get(settings.width or "")
    if inches is not None and count > 1:
        most = int(inches / _NARROWEST)
        columns = 1 if most < columns + 1 and count <= _FEW_PANELS else min(columns, most)
    rows = -(-count // columns)
    if inches is None:
        figure = Figure(figsize=(width * columns, height * rows))
    else:
        tall = min(_TALLER * height / width, 1.0 if columns > 1 else 0.75)
        figure = Figure(figsize=(inches, rows * inches / columns * tall + 0.3))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def _name_curves(figure: Figure, panels: Iterable[Axes]) -> None:
    """Add the legend of all labelled curves: beside a picture of some width where it takes at most
    three tenths of that, else below, where the picture gets taller by it."""
    by_label: dict[str, Any] = {}
    for axes in panels:
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


def write_picture(figure: Figure, path: Path, form: str) -> None:
    """Write the picture in one format, the same bytes for the same picture."""
    metadata: dict[str, Any] = dict(_METADATA[form])
    if form == "png":  # savefig would draw it twice
        canvas = FigureCanvasAgg(figure)
        write_with(
            path,
            lambda file: canvas.print_png(file, metadata=metadata),  # type: ignore[no-untyped-call]
        )
    else:
        write_with(path, lambda file: figure.savefig(file, format=form, metadata=metadata))


def _wrap_labels(axes: Axes) -> None:
    """Break the lines of a panel's title and labels that are longer than its share of the
    picture."""
    figure, place = axes.figure, axes.get_subplotspec()
    assert isinstance(figure, Figure)
    width, height = figure.get_size_inches()
    if place is not None:  # none for the scale of colours
        grid = place.get_gridspec()
        width = width / grid.ncols
        heights = np.asarray(grid.get_height_ratios(), dtype=np.float64)
        height = height * float(heights[place.rowspan.start] / heights.sum())
    for text, inches in (
        (axes.title, 0.9 * width),
        (axes.xaxis.label, width),
        (axes.yaxis.label, 0.9 * height),
    ):
        text.set_text(_wrapped(text.get_text(), inches * 10 / float(text.get_fontsize())))


def _wrapped(text: str, inches: float) -> str:
    """Lines that are no longer than these inches, in letters of 10 points."""
    width = max(12, int(inches * _CHARACTERS_PER_INCH))
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _label_log_axis(axis: Axis) -> None:
    """Ticks of a log axis at powers of ten, within fewer than three of them also at 2 and 5 times
    these, and at whatever else gives two labels; plain numbers where these are short. Ticks that
    were set by hand stay."""
    if axis.get_scale() != "log" or isinstance(axis.get_major_locator(), FixedLocator):
        return
    low, high = sorted(axis.get_view_interval())
    ticks = _log_ticks(low, high, _most_labels(axis))
    if all(_PLAIN[0] <= tick < _PLAIN[1] for tick in ticks):
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
