"""Panels as pictures: PNG, PDF and SVG in the sizes of a screen or a paper, with a CSV beside each.

save_panels(folder, panels, settings, title="Linear functions of 10 inputs")
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .rc import DEFAULTS, RcParams  # isort: skip  (before matplotlib)
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from looplab.conf.mistakes import nearest
from looplab.conf.schema import FigureSettings
from looplab.evaluation.bootstrap import Floats, numbers
from looplab.evaluation.plain import Fields
from looplab.training.run_folder.files import list_names, write_bytes, write_with

from .style import Style, styles_of

if TYPE_CHECKING:
    from .panel import Curve, Panel, Values

_INCHES = {"column": 3.25, "page": 6.75}  # of a picture's width
_PANEL_INCHES = {1: (6.4, 4.0), 2: (5.0, 4.0)}  # on a screen, by the number of columns
_SMALL_PANEL_INCHES = (3.3, 2.8)  # of more columns
# Of letters, lines and markers, in points.
_SIZES = {None: (10.0, 1.6, 6.0), "column": (7.5, 1.1, 3.5), "page": (8.5, 1.4, 4.5)}
_SMALLEST = 7.0  # points, of the letters of a legend, as many journals ask
_CHARACTERS_PER_INCH = 13  # in letters of 10 points, a lower bound
_STYLE: RcParams = {
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": "medium",
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.2,
    "pdf.fonttype": 42,  # letters stay letters
    "svg.hashsalt": "looplab",  # and the same picture is the same SVG
}
# The same picture is the same file, whenever it is drawn.
METADATA: dict[str, Fields] = {
    "png": {},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
NAMED = "named"  # the id of lines across the axes that a legend names
_DRAWN = (".png", ".pdf", ".svg", ".csv")
_FEW_DECADES = 0.7  # of a log axis, on which ticks stand as on a plain one
_MARGIN = 0.02  # of the x axis, beyond the curves' ends
_MOST_BARS = 24  # beside each other
_INCHES_OF_A_BAR = 0.07
_MOST_BANDS = 10  # of a panel; more cover each other
_FEW_X = 6  # at which intervals are bars beside each other, from three of them on
_MOST_ROWS = 4  # of a legend below a picture, where smaller letters can make them fewer
_LOOPS = ("loop", "layer", "increment")  # begin the label of an x that counts them
_LEVEL_DASHES = ((0, (1, 3)), "-.", "--")  # none of which a curve has


def styled(settings: FigureSettings | None = None) -> AbstractContextManager[None]:
    """The context in which every picture is drawn and saved, whatever a matplotlibrc says."""
    width = settings.width if settings else None
    letters, line, marker = _SIZES[width]
    small = max(_SMALLEST, letters / 1.2)  # as matplotlib's "small"
    sizes = {
        "font.size": letters,
        "lines.linewidth": line,
        "lines.markersize": marker,
        "legend.fontsize": small,
    }
    params = DEFAULTS | _STYLE | sizes
    if width is not None:  # narrow, and printed
        params |= {"figure.titlesize": "medium", "axes.titlesize": small, "figure.dpi": 300}
    return rc_context(params)


def save_panels(
    folder: Path,
    panels: Sequence[Panel],
    settings: FigureSettings | None = None,
    title: str = "",
    remarks: Sequence[str] = (),
) -> list[Path]:
    """Draw panels into `folder`, a file for each picture and format and a CSV with its numbers;
    returns the files.

    `title` stands above each picture, with the remarks on its runs, which stay where pictures have
    no title. Files of other names or formats stay, as they may be in a paper. A line says which
    they are, and one each `settings.labels` that no curve has.
    """
    settings = settings or FigureSettings()
    folder.mkdir(parents=True, exist_ok=True)
    for problem in unknown_names(panels, settings.new_names):
        print(f"{folder}: figures.labels {problem}", flush=True)
    pictures: dict[str, list[Panel]] = {}
    for panel in panels:
        renamed = panel.renamed(settings.new_names)
        pictures.setdefault(panel.picture or panel.name, []).append(renamed)
    files = []
    for name, members in pictures.items():
        with styled(settings):
            figure = draw(members, settings, title, remarks)
            for form in settings.format:
                path = folder / f"{name}.{form}"
                write_picture(figure, path, form)
                files.append(path)
        path = folder / f"{name}.csv"
        write_bytes(path, _csv(members).encode())
        files.append(path)
    # Named, not deleted: they may be somebody's figures.
    earlier = [path.name for path in folder.iterdir() if path.suffix in _DRAWN]
    earlier = sorted(set(earlier) - {file.name for file in files})
    if earlier:
        print(f"{folder}: from earlier drawings, not drawn now: {list_names(earlier)}", flush=True)
    return files


def unknown_names(panels: Iterable[Panel], names: Iterable[str]) -> list[str]:
    """What is wrong with each of the `names` that stands in no legend of the panels."""
    known = {name for panel in panels for name in panel.legend()}
    problems = []
    for name in names:
        if name not in known:
            problems.append(f"names {name!r}, which no curve is called{nearest(name, known)}")
    return problems


def write_picture(figure: Figure, path: Path, form: str) -> None:
    """Write the picture in one format, the same bytes for the same picture."""
    write_with(path, lambda file: figure.savefig(file, format=form, metadata=METADATA[form]))


def _csv(panels: Sequence[Panel]) -> str:
    """The numbers of a picture's panels beside each other, by panel where it has several."""
    frames = [panel.frame() for panel in panels]
    if len(panels) > 1:
        for index, panel in enumerate(panels):
            frames[index] = frames[index].add_prefix(f"{panel.name}: ")
    return str(frames[0].join(frames[1:], how="outer").to_csv(index=False))


def draw(
    panels: Sequence[Panel], settings: FigureSettings, title: str = "", remarks: Sequence[str] = ()
) -> Figure:
    """One picture of panels beside each other, as wide as the settings say."""
    if settings.y_scale == "linear":
        panels = [_from_zero(panel) if "y" in panel.log else panel for panel in panels]
    figure, grid = _empty_figure(len(panels), settings)
    # Bars that lie need a height by their number; every other picture has that of its panels.
    if _lies(panels[0]):
        bars = len(panels[0].x) * len(panels[0].curves)
        figure.set_figheight(max(figure.get_figheight(), bars * _INCHES_OF_A_BAR))
    styles = _shared_styles(panels)
    for panel, axes, panel_styles in zip(panels, grid, styles, strict=True):
        draw_panel(panel, axes, panel_styles)
        if len(panels) > 1:
            axes.set_title(panel.title)
    _share_axis_labels(grid)
    lines = []
    if title and settings.title:
        lines.append(title)
    own_title = panels[0].title if len(panels) == 1 else ""
    if own_title and own_title != title and settings.title:
        lines.append(own_title)
    lines += remarks
    if lines:
        text = figure.suptitle("\n".join(lines))
        _wrap(text, figure.get_figwidth())
    if len(panels) == 1 or _share_a_legend(panels, styles):
        _add_legend(figure, grid)
    else:
        for axes in grid:
            axes.legend(loc="best", fontsize=_SMALLEST)
    wrap_labels(figure)
    return figure


def _from_zero(panel: Panel) -> Panel:
    """The panel with a linear axis from 0 in the place of a logarithmic one of y."""
    return replace(panel, log=panel.log.replace("y", ""), limits=(0, panel.limits[1]))


def _empty_figure(count: int, settings: FigureSettings) -> tuple[Figure, list[Axes]]:
    """An empty picture of so many panels, about as many beside as below each other; a paper's
    column has one beside the other only from four on."""
    # Up to three in one row, then about a square; a paper's column is narrower.
    columns = count if count < 4 else math.ceil(count**0.5)
    if settings.width == "column":
        columns = 1 if count < 4 else min(math.ceil(count / 3), 3)
    rows = math.ceil(count / columns)
    if settings.width is None:
        width, height = _PANEL_INCHES.get(columns, _SMALL_PANEL_INCHES)
        figure = Figure(figsize=(width * columns, height * rows))
    else:
        inches = _INCHES[settings.width]
        aspect = 0.75 if columns == 1 else 0.95
        figure = Figure(figsize=(inches, rows * inches / columns * aspect + 0.3))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def _share_axis_labels(grid: Sequence[Axes]) -> None:
    """Leave labels that all panels share in the first column and below the last panel of each."""
    # Axes beside the first one have its lower edge.
    top = grid[0].get_position().y0
    columns = sum(axes.get_position().y0 == top for axes in grid)
    if len({axes.get_ylabel() for axes in grid}) == 1:
        for index, axes in enumerate(grid):
            if index % columns:
                axes.set_ylabel("")
    if len({axes.get_xlabel() for axes in grid}) == 1:
        for axes in grid[:-columns]:
            axes.set_xlabel("")


def _share_a_legend(panels: Sequence[Panel], styles: Sequence[Sequence[Style]]) -> bool:
    """Whether one legend serves all panels of a picture: no style stands for two labels."""
    by_label: dict[str, Style] = {}  # of which each has one: `_shared_styles`
    for panel, panel_styles in zip(panels, styles, strict=True):
        by_label |= dict(zip((curve.label for curve in panel.curves), panel_styles, strict=True))
    looks = list(by_label.values())
    return all(looks.count(look) == 1 for look in looks)


def _shared_styles(panels: Sequence[Panel]) -> list[list[Style]]:
    """The styles of the curves of each panel of a picture, one for each label of their legend:
    those of each panel alone where these agree, else those of all curves together."""
    styles = [curve_styles(panel.curves) for panel in panels]
    by_label: dict[str, Style] = {}
    for panel, panel_styles in zip(panels, styles, strict=True):
        for curve, style in zip(panel.curves, panel_styles, strict=True):
            if by_label.setdefault(curve.label, style) != style:
                return _styles_by_label(panels)
    return styles


def _styles_by_label(panels: Sequence[Panel]) -> list[list[Style]]:
    curves = {curve.label: curve for panel in panels for curve in panel.curves}
    styles = dict(zip(curves, curve_styles(list(curves.values())), strict=True))
    by_panel = []
    for panel in panels:
        by_panel.append([styles[curve.label] for curve in panel.curves])
    return by_panel


def curve_styles(curves: Sequence[Curve]) -> list[Style]:
    """The style of each curve, by the number that it stands for, where it has one; else by kind.
    That of a model is the same whichever solvers are beside it, and no solver's."""
    styles: dict[int, Style] = {}
    # Models first: what they look like does not depend on the solvers beside them.
    for is_solver in (False, True):
        group = {index: curve for index, curve in enumerate(curves) if curve.solver == is_solver}
        kinds = [curve.kind for curve in group.values()]
        values = [curve.number for curve in group.values()]
        group_styles = styles_of(kinds, values, beside=list(styles.values()))
        styles |= dict(zip(group, group_styles, strict=True))
    return [styles[index] for index in range(len(curves))]


def _add_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Add the legend of all labelled curves: beside a picture of some width where it takes at most
    three tenths of that, else below, where the picture gets taller by it."""
    handles: Fields = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if not handles:
        return
    width, height = figure.get_size_inches()
    entries = list(handles.values()), list(handles)
    # Matplotlib knows the size of a legend only once it is there: add, measure, remove.
    legend = figure.legend(*entries, loc="outside right center")
    if width >= 4 and legend.get_window_extent().width <= 0.3 * figure.bbox.width:
        return
    # Below: as many columns as fit; in the smallest letters where these make too many rows.
    for size in (rcParams["legend.fontsize"], _SMALLEST):
        for columns in range(len(handles), 0, -1):
            legend.remove()
            legend = figure.legend(
                *entries, loc="outside lower center", ncols=columns, fontsize=size
            )
            if legend.get_window_extent().width <= figure.bbox.width:
                break
        if math.ceil(len(handles) / columns) <= _MOST_ROWS:
            break
    figure.set_size_inches(width, height + legend.get_window_extent().height / figure.dpi)


def wrap_labels(figure: Figure) -> None:
    """Break titles and labels that are longer than a panel's share of the picture."""
    width, height = figure.get_size_inches()
    for axes in figure.axes:
        subplot = axes.get_subplotspec()
        if subplot is None:  # the scale of colours
            continue
        grid = subplot.get_gridspec()
        _wrap(axes.title, 0.8 * width / grid.ncols)
        _wrap(axes.xaxis.label, 0.9 * width / grid.ncols)
        _wrap(axes.yaxis.label, 0.8 * height / grid.nrows)


def _wrap(text: Text, inches: float) -> None:
    """Break the lines of a text of a picture so that none is longer, and all about as long."""
    # 10 / size: smaller letters are more to the inch.
    letters = float(text.get_fontsize())
    most = max(12, int(inches * 10 / letters * _CHARACTERS_PER_INCH))
    wrapped = []
    for line in text.get_text().replace(" %", "\u00a0%").splitlines():
        count = len(textwrap.wrap(line, most))
        even = 1  # the least width that needs no more lines than `most` does
        while even < most and len(textwrap.wrap(line, even)) > count:
            even += 1
        wrapped += textwrap.wrap(line, max(even, min(most, 12)))
    text.set_text("\n".join(wrapped))


def draw_panel(panel: Panel, axes: Axes, styles: Sequence[Style] | None = None) -> None:
    """Draw a panel on axes: its curves, levels and marks and the trained loops, with labels and
    scales; `styles` are those of the curves, where they are not the panel's own."""
    styles = styles or curve_styles(panel.curves)
    if panel.matrix:
        _draw_matrix(panel, axes)
    bands = sum(_has_interval(curve) and not curve.points for curve in panel.curves)
    for index, style in enumerate(styles):
        if panel.bars:
            _draw_bars(panel, axes, index, style)
        else:
            _draw_curve(panel, axes, index, style, bands)
    _draw_marks(panel, axes)
    _set_scales(panel, axes)
    # After the scales, which no level is to stretch.
    _draw_levels(panel, axes)
    if _lies(panel):
        axes.set_xlabel(panel.y_label)
        axes.set_ylabel(panel.x_label)
    else:
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
    _set_log_ticks(axes.xaxis)
    _set_log_ticks(axes.yaxis)


def _has_interval(curve: Curve) -> bool:
    return any(value is not None for value in curve.low)


def _lies(panel: Panel) -> bool:
    """Whether the bars are so many that they lie, one below the other."""
    return panel.bars and len(panel.x) * len(panel.curves) > _MOST_BARS


def _draw_curve(panel: Panel, axes: Axes, index: int, style: Style, bands: int) -> None:
    """Draw a mean with its interval, of which the panel has `bands` in all: as a line with a band,
    or as points that no line joins."""
    curve = panel.curves[index]
    mean = numbers(curve.mean)
    xs = numbers(curve.x or panel.x)[: len(mean)]
    (line,) = axes.plot(xs, mean, label=curve.label, gid=f"curve-{index}", **style)
    if curve.points:
        line.set(marker="o", linestyle="none")
        if _has_interval(curve):
            lengths = (mean - numbers(curve.low), numbers(curve.high) - mean)
            color = style["color"]
            axes.errorbar(xs, mean, lengths, fmt="none", ecolor=color, elinewidth=0.8, capsize=2)
        return
    if len(mean) == 1:
        line.set_marker("o")
    elif curve.x:
        line.set_marker(".")
    if _has_interval(curve) and bands <= _MOST_BANDS:
        _draw_interval(panel, axes, index, xs, style["color"], bands)


def _draw_interval(
    panel: Panel, axes: Axes, index: int, xs: Floats, color: str, bands: int
) -> None:
    """Draw a band below all lines, the fainter the more bands there are, so that none hides a line;
    at few x bars side by side."""
    low = numbers(panel.curves[index].low)
    high = numbers(panel.curves[index].high)
    name = f"band-{index}"
    if bands > 2 and len(xs) <= _FEW_X:
        before = sum(map(_has_interval, panel.curves[:index]))
        # The curve's place among those with an interval, counted from their middle.
        inches = (before - (bands - 1) / 2) * 3 / 72  # 3 points from one to the next
        shift = ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)
        beside = axes.transData + shift  # given with the bars: the axes' limits depend on it
        bars = axes.vlines(xs, low, high, color=color, transform=beside)
        bars.set(linewidth=1.2, alpha=0.6, gid=name)
        return
    # Bands that lie over each other add up.
    opacity = 0.05
    if bands < 3:
        opacity = 0.2
    elif bands < 5:
        opacity = 0.1
    band = axes.fill_between(xs, low, high, facecolor=to_rgba(color, opacity), gid=name)
    band.set(edgecolor=to_rgba(color, 0.45), linewidth=0 if bands < 3 else 0.5, zorder=1)


def _draw_bars(panel: Panel, axes: Axes, index: int, style: Style) -> None:
    """Draw a curve as bars beside those of the others, with its intervals; hollow where another of
    its kind comes before it. Many bars lie, one below the other."""
    curve = panel.curves[index]
    width = 0.8 / len(panel.curves)  # of the distance of two x, all bars at one of them
    mean = numbers(curve.mean)
    # The bars at one x lie about it.
    offset = (index - (len(panel.curves) - 1) / 2) * width
    places = numbers(panel.x)[: len(mean)] + offset
    interval = None
    if _has_interval(curve):
        # As lengths; 0 where there is no interval.
        interval = np.nan_to_num((mean - numbers(curve.low), numbers(curve.high) - mean))
    kinds_before = [earlier.kind for earlier in panel.curves[:index]]
    color = style["color"]
    look: Fields = {
        "label": curve.label,
        "gid": f"curve-{index}",
        "fill": curve.kind not in kinds_before,
        "facecolor": color,
        "edgecolor": color,
        "linewidth": 0.6,
        "error_kw": {"elinewidth": 0.8},
    }
    if _lies(panel):
        axes.barh(places, mean, width, xerr=interval, **look)
    else:
        axes.bar(places, mean, width, yerr=interval, **look)


def _draw_matrix(panel: Panel, axes: Axes) -> None:
    """Draw values between -1 and 1, as cosines, in colours; grey where there is none."""
    x = numbers(panel.x)
    ends = (x[0] - 0.5, x[-1] + 0.5) * 2  # of x and of y
    values = np.array([numbers(row) for row in panel.matrix])
    axes.set_facecolor("lightgrey")
    # Red to blue: readable for the colour-blind.
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=ends)
    axes.grid(visible=False)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.figure.colorbar(image, ax=axes)


def _draw_marks(panel: Panel, axes: Axes) -> None:
    """Draw vertical lines at the loops of training, where x counts loops, and at the marks."""
    if panel.x_label.startswith(_LOOPS):
        trained = sorted({curve.b for curve in panel.curves if curve.b is not None})
        name = f"b of training: {', '.join(map(str, trained))}"
        style = {"color": "black", "linestyle": "--", "linewidth": 1.0}
        _draw_lines(axes.axvline, name, trained, style)
    for name, places in panel.marks.items():
        style = {"color": "#555555", "linestyle": ":", "zorder": 1}
        _draw_lines(axes.axvline, name, places, style)


def _draw_levels(panel: Panel, axes: Axes) -> None:
    """Draw horizontal lines at those levels that the curves' axis reaches."""
    low, high = axes.get_ylim()
    for (name, height), dash in zip(panel.levels.items(), cycle(_LEVEL_DASHES)):
        if low <= height <= high:
            style = {"color": "grey", "linestyle": dash, "linewidth": 1.0}
            _draw_lines(axes.axhline, name, [height], style)


def _draw_lines(
    draw_line: Callable[..., Line2D], name: str, places: Sequence[float], style: Fields
) -> None:
    """Draw lines across the axes with one name for all in the legend, where it covers no curve."""
    for index, place in enumerate(places):
        line = draw_line(place, label="_", **style)  # which no legend of matplotlib's shows
        if name and index == 0:
            line.set_label(name)
            line.set_gid(NAMED)


def _set_scales(panel: Panel, axes: Axes) -> None:
    """Set the scales of a panel's axes, with ticks that read as numbers."""
    has_points = any(curve.points for curve in panel.curves)
    if not (panel.bars or panel.matrix or has_points):
        axes.set_xmargin(_MARGIN)
    if _lies(panel):
        axes.set_yticks(numbers(panel.x), panel.x_names)
        axes.margins(y=0.01)
        # Lying bars read from the top down, as a table does.
        axes.invert_yaxis()
    elif panel.x_names:
        axes.set_xticks(numbers(panel.x), panel.x_names, rotation=45, ha="right")
    elif "x" in panel.log:
        axes.set_xscale("log")
        if not has_points:  # points lie anywhere: no ticks
            ends = axes.get_xlim()
            axes.set_xticks(numbers(panel.x), [f"{value:g}" for value in panel.x])
            axes.set_xlim(ends)  # of what is drawn: the ticks may reach beyond
            axes.xaxis.set_minor_locator(NullLocator())
    elif _are_whole(panel.x):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=2))
    means = [value for curve in panel.curves for value in curve.mean if value is not None]
    if means and _are_whole(means):
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    _set_y_limits(panel, axes)


def _are_whole(values: Values) -> bool:
    return all(value is not None and float(value).is_integer() for value in values)


def _set_y_limits(panel: Panel, axes: Axes) -> None:
    low, high = panel.limits
    if "y" in panel.log:
        _set_log_above_rounding(panel, axes)
    elif low is not None:
        axes.update_datalim([(0, low)], updatex=False)  # that the curves have room above them, too
        axes.autoscale_view(scalex=False)
    if high is not None:
        high = min(high, axes.get_ylim()[1])
    if panel.limits != (None, None):  # else levels beyond the curves move the ends of y
        axes.set_ylim(low, high)


def _set_log_above_rounding(panel: Panel, axes: Axes) -> None:
    """Set a log scale from the least of the curves, at most a decade below the least value of one
    that is no solver's.

    Exact solvers reach rounding error, which would squeeze all other curves. The scale stays linear
    where no such value is above 0.
    """
    models = [curve for curve in panel.curves if not curve.solver] or panel.curves
    means = _above_zero([curve.mean for curve in models])
    if not len(means):
        return
    axes.set_yscale("log")
    lowest = _above_zero([values for curve in panel.curves for values in (curve.mean, curve.low)])
    highest = _above_zero([values for curve in panel.curves for values in (curve.mean, curve.high)])
    # A decade below the least of the models and .1, but not below all that there is.
    bottom = max(min(means.min(), 0.1) / 10, lowest.min() / 1.5)
    top = max(highest.max(), max(panel.levels.values(), default=0.0)) * 1.5
    axes.set_ylim(bottom, top)


def _above_zero(rows: Iterable[Values]) -> Floats:
    """The finite values above 0 of all rows."""
    values = numbers([value for row in rows for value in row])
    return values[np.isfinite(values) & (values > 0)]


def _set_log_ticks(axis: Axis) -> None:
    """Set the ticks of a log axis at powers of ten, of fewer than two of them also at 2 and 5 times
    these or at more; plain numbers where these are short. Ticks that were set by hand stay."""
    if axis.get_scale() != "log" or isinstance(axis.get_major_locator(), FixedLocator):
        return
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    if decades < _FEW_DECADES:
        axis.set_major_locator(MaxNLocator("auto"))
    else:
        # 2.3 decades hold two powers of ten at least, wherever they begin.
        axis.set_major_locator(LogLocator(subs=(1,) if decades > 2.3 else (1, 2, 5)))
    axis.set_minor_formatter(NullFormatter())
    if low >= 1e-4 and high < 1e5:
        axis.set_major_formatter(lambda x, _: f"{x / 1e3:g}k" if x >= 1e4 else f"{x:.6g}")
