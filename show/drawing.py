"""Panels as pictures: PNG, PDF and SVG in the sizes of a screen or a paper, with a CSV beside each.

save_panels(folder, panels, settings, title="Linear functions of 10 inputs")
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .rc import DEFAULTS  # isort: skip  (before matplotlib)
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from looplab.conf.mistakes import nearest
from looplab.conf.schema import FigureSettings
from looplab.evaluation.bootstrap import numbers
from looplab.training.run_folder.files import some_files, write_bytes, write_with

from .style import styles_of

if TYPE_CHECKING:
    from .panel import Curve, Panel

_INCHES = {"column": 3.25, "page": 6.75}
# Of letters, lines and markers, in points.
_SIZES = {None: (10.0, 1.6, 6.0), "column": (7.5, 1.1, 3.5), "page": (8.5, 1.4, 4.5)}
_SMALLEST = 7.0  # points, of the letters of a legend, as many journals ask
_CHARACTERS_PER_INCH = 13  # in letters of 10 points, a lower bound
_STYLE: dict[Any, Any] = {
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
_ON_PAGE: Any = dict.fromkeys(("svg.fonttype", "figure.facecolor", "axes.facecolor"), "none")
# The same picture is the same file, whenever it is drawn.
_METADATA: dict[str, Any] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_DRAWN = (".png", ".pdf", ".svg", ".csv")
_FEW_DECADES = 0.7  # of a log axis, on which ticks stand as on a plain one
_MARGIN = 0.02  # of the x axis, beyond the curves' ends
_MOST_BARS = 24  # beside each other
_INCHES_OF_A_BAR = 0.07
_MOST_BANDS = 10  # of a panel; more cover each other
_FEW_X = 6  # at which intervals are bars beside each other, from three of them on
_MOST_ROWS = 4  # of a legend below a picture, where smaller letters can make them fewer
_LOOPS = ("loop", "layer", "increment")  # begin the label of an x that counts them


def styled(settings: FigureSettings | None = None) -> AbstractContextManager[None]:
    """The context in which every picture is drawn and saved, whatever a matplotlibrc says."""
    width = (settings or FigureSettings()).width
    parts = ("font.size", "lines.linewidth", "lines.markersize")
    sizes = dict(zip(parts, _SIZES[width], strict=True))
    small = max(_SMALLEST, sizes["font.size"] / 1.2)  # as matplotlib's "small"
    sizes["legend.fontsize"] = small
    narrow = {"figure.titlesize": "medium", "axes.titlesize": small, "figure.dpi": 300}
    return rc_context(DEFAULTS | _STYLE | sizes | ({} if width is None else narrow))


def save_panels(
    folder: Path,
    panels: Sequence[Panel],
    settings: FigureSettings | None = None,
    title: str = "",
    remarks: Sequence[str] = (),
) -> list[Path]:
    """Draw panels into `folder`, a file for each picture and format and a CSV with its numbers;
    returns the files. `title` stands above each picture, with the remarks on its runs, which stay
    where pictures have no title. Files of other names or formats stay, as they may be in a paper; a
    line says which they are, and one each `settings.labels` that no curve has."""
    settings = settings or FigureSettings()
    folder.mkdir(parents=True, exist_ok=True)
    for problem in unknown_names(panels, settings.new_names):
        print(f"{folder}: figures.labels {problem}", flush=True)
    pictures: dict[str, list[Panel]] = {}
    for panel in panels:
        renamed = panel.renamed(settings.new_names)
        pictures.setdefault(panel.picture or panel.name, []).append(renamed)
    files = []
    for name, parts in pictures.items():
        with styled(settings):
            figure = draw(parts, settings, title, remarks)
            for form in settings.format:
                files.append(folder / f"{name}.{form}")
                write_picture(figure, files[-1], form)
        files.append(folder / f"{name}.csv")
        frames = [part.frame() for part in parts]
        if len(parts) > 1:
            frames = [part.frame().add_prefix(f"{part.name}: ") for part in parts]
        text = frames[0].join(frames[1:], how="outer").to_csv(index=False)
        write_bytes(files[-1], text.encode())
    earlier = {path for path in folder.iterdir() if path.suffix in _DRAWN} - {*files}
    if earlier:
        names = some_files(sorted(path.name for path in earlier))
        print(f"{folder}: from earlier drawings, not drawn now: {names}", flush=True)
    return files


def unknown_names(panels: Iterable[Panel], names: Iterable[str]) -> list[str]:
    """What is wrong with each of the `names` that stands in no legend of the panels."""
    known = {name for panel in panels for name in panel.legend()}
    unknown = [name for name in names if name not in known]
    return [f"names {name!r}, which no curve is called{nearest(name, known)}" for name in unknown]


def draw(
    panels: Sequence[Panel], settings: FigureSettings, title: str = "", remarks: Sequence[str] = ()
) -> Figure:
    """One picture of panels beside each other, as wide as the settings say."""
    if settings.y_scale == "linear":
        panels = [_from_zero(panel) for panel in panels]
    figure, grid = _figure(len(panels), settings)
    if _lies(panels[0]):
        bars = len(panels[0].x) * len(panels[0].curves)
        figure.set_figheight(max(figure.get_figheight(), bars * _INCHES_OF_A_BAR))
    styles = _shared_styles(panels)
    for panel, axes, of_panel in zip(panels, grid, styles, strict=True):
        draw_panel(panel, axes, of_panel)
        if len(panels) > 1:
            axes.set_title(panel.title)
    # Labels that all panels share stand in the first column and below the last panel of each.
    columns = sum(axes.get_position().y0 == grid[0].get_position().y0 for axes in grid)
    if len({axes.get_ylabel() for axes in grid}) == 1:
        for index, axes in enumerate(grid):
            axes.set_ylabel("" if index % columns else axes.get_ylabel())
    if len({axes.get_xlabel() for axes in grid}) == 1:
        for axes in grid[:-columns]:
            axes.set_xlabel("")
    headings = [title, panels[0].title] if len(panels) == 1 else [title]
    shown = [heading for heading in dict.fromkeys(headings) if heading and settings.title]
    lines = [*shown, *remarks]
    if lines:
        text = figure.suptitle("\n".join(lines))
        _wrap(text, figure.get_figwidth())
    if len(panels) == 1 or _share_a_legend(panels, styles):
        _name_curves(figure, grid)
    else:
        for axes in grid:
            axes.legend(loc="best", fontsize=_SMALLEST)
    _finish(figure)
    return figure


def _from_zero(panel: Panel) -> Panel:
    """The panel with a linear axis from 0 in the place of a logarithmic one of y."""
    limits = (0, panel.limits[1]) if "y" in panel.log else panel.limits
    return replace(panel, log=panel.log.replace("y", ""), limits=limits)


def _share_a_legend(panels: Sequence[Panel], styles: Sequence[Sequence[Any]]) -> bool:
    """Whether one legend serves all panels of a picture: no style stands for two labels."""
    looks = {
        (style["color"], style["linestyle"], curve.label)
        for panel, of_panel in zip(panels, styles, strict=True)
        for curve, style in zip(panel.curves, of_panel, strict=True)
    }
    return len({look[:2] for look in looks}) == len(looks)


def _shared_styles(panels: Sequence[Panel]) -> list[list[dict[str, Any]]]:
    """The styles of the curves of each panel of a picture, one for each label of their legend:
    those of each panel alone where these agree, else those of all curves together."""
    found = [curve_styles(panel.curves) for panel in panels]
    by_label: dict[str, dict[str, Any]] = {}
    for panel, styles in zip(panels, found, strict=True):
        for curve, style in zip(panel.curves, styles, strict=True):
            if by_label.setdefault(curve.label, style) != style:
                curves = {each.label: each for panel in panels for each in panel.curves}
                together = dict(zip(curves, curve_styles([*curves.values()]), strict=True))
                return [[together[each.label] for each in panel.curves] for panel in panels]
    return found


def svg(panel: Panel, prefix: str) -> str:
    """A panel as an SVG for a page that names the curves itself. The ids of its parts begin with
    `prefix`: <prefix>-curve-<i>, <prefix>-band-<i> and, over each x of the panel, <prefix>-hit-<i>,
    a rectangle that is not seen."""
    with styled(), rc_context(_ON_PAGE):
        figure = Figure(figsize=(5.2, 3.4))
        axes = figure.subplots()
        draw_panel(panel, axes)
        if named := [each for each in axes.lines if each.get_gid() == "named"]:
            figure.legend(handles=named, loc="outside lower center", ncols=len(named))
        _finish(figure)
        if not panel.matrix:
            _add_hits(numbers(panel.x), axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=_METADATA["svg"])
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>", "", text, flags=re.S)
    text = re.sub(r"<[^>]*>", _rounded, text)
    # The ids of marks and clips are hashes, those of other parts are not needed.
    text = re.sub(
        r' id="(?!(curve|band|hit)-\d+"|[mp][0-9a-f]{10}")[^"]*"| font-family: [^;"]+;?', "", text
    )
    text = re.sub(r'( id="|#)(?=(curve|band|hit)-|[mp][0-9a-f]{10})', rf"\1{prefix}-", text)
    return re.sub(r"\s*\n\s*", " ", text[text.index("<svg") :]).replace("> <", "><").strip()


def _rounded(tag: re.Match[str]) -> str:
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", tag[0])


def _add_hits(x: np.ndarray[Any, Any], axes: Axes) -> None:
    """Add the rectangles that a page's cursor finds the values of a panel by: each reaches half way
    to the next x, as far as the axes go."""
    left, right = axes.set_xlim(axes.get_xlim())  # which the rectangles do not move
    scale = axes.xaxis.get_transform()
    with np.errstate(divide="ignore"):
        places = scale.transform(x)
    middles = scale.inverted().transform((places[1:] + places[:-1]) / 2)
    edges = np.clip([left, *middles, right], left, right)
    for index, ends in enumerate(pairwise(edges)):
        axes.axvspan(*ends, alpha=0, zorder=9, gid=f"hit-{index}")


def _finish(figure: Figure) -> None:
    """Break titles and labels that are longer than a panel's share of the picture."""
    for axes in figure.axes:
        if place := axes.get_subplotspec():  # none for the scale of colours
            (width, height), grid = figure.get_size_inches(), place.get_gridspec()
            _wrap(axes.title, 0.8 * width / grid.ncols)
            _wrap(axes.xaxis.label, 0.9 * width / grid.ncols)
            _wrap(axes.yaxis.label, 0.8 * height / grid.nrows)


def _wrap(text: Any, inches: float) -> None:
    """Break the lines of a text of a picture so that none is longer, and all about as long."""
    most = max(12, int(inches * 10 / float(text.get_fontsize()) * _CHARACTERS_PER_INCH))
    parts = []
    for line in text.get_text().replace(" %", "\u00a0%").splitlines():
        count = len(textwrap.wrap(line, most))
        even = next(n for n in range(1, most + 1) if len(textwrap.wrap(line, n)) <= count)
        parts += textwrap.wrap(line, max(even, min(most, 12)))
    text.set_text("\n".join(parts))


def draw_panel(panel: Panel, axes: Axes, styles: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Draw a panel on axes: its curves, levels and marks and the trained loops, with labels and
    scales; `styles` are those of the curves, where they are not the panel's own."""
    curves, styles = panel.curves, styles or curve_styles(panel.curves)
    if panel.matrix:
        _matrix(panel, axes)
    bands = sum(_has_interval(curve) and not curve.points for curve in curves)
    for index, (curve, style) in enumerate(zip(curves, styles, strict=True)):
        if panel.bars:
            _bars(panel, axes, index, style)
        else:
            _line(panel, axes, curve, style, index, bands)
    known = sorted({curve.b for curve in curves if curve.b is not None})
    trained = known if panel.x_label.startswith(_LOOPS) else []
    black = {"color": "black", "linestyle": "--", "linewidth": 1.0}
    _lines(axes.axvline, f"b of training: {', '.join(map(str, trained))}", trained, black)
    for name, places in panel.marks.items():
        _lines(axes.axvline, name, places, {"color": "#555555", "linestyle": ":", "zorder": 1})
    _scales(panel, axes)
    low, high = axes.get_ylim()
    for (name, height), dash in zip(panel.levels.items(), cycle(((0, (1, 3)), "-.", "--"))):
        if low <= height <= high:
            grey = {"color": "grey", "linestyle": dash, "linewidth": 1.0}
            _lines(axes.axhline, name, [height], grey)
    labels = (panel.y_label, panel.x_label) if _lies(panel) else (panel.x_label, panel.y_label)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    _label_log_axis(axes.xaxis)
    _label_log_axis(axes.yaxis)


def _lines(draw: Any, name: str, places: Sequence[float], style: Mapping[str, Any]) -> None:
    """Draw lines across the axes with one name for all in the legend, where it covers no curve."""
    for index, place in enumerate(places):
        is_named = name and not index
        draw(place, label=name if is_named else "_", gid="named" if is_named else None, **style)


def curve_styles(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The style of each curve, by the number that it stands for, where it has one; else by kind.
    That of a model is the same whichever solvers are beside it, and no solver's."""
    found: dict[int, dict[str, Any]] = {}
    for solver in (False, True):
        part = {index: each for index, each in enumerate(curves) if each.solver == solver}
        kinds, numbers = [c.kind for c in part.values()], [c.number for c in part.values()]
        styles = styles_of(kinds, numbers, beside=[*found.values()])
        found |= dict(zip(part, styles, strict=True))
    return [found[index] for index in range(len(curves))]


def _has_interval(curve: Curve) -> bool:
    return any(value is not None for value in curve.low)


def _line(
    panel: Panel, axes: Axes, curve: Curve, style: Mapping[str, Any], index: int, bands: int
) -> None:
    """Draw a mean with its interval as a band, below all lines, the fainter the more bands there
    are, so that none hides a line, and at few x as bars side by side; or points that no line
    joins."""
    mean, low, high = map(numbers, (curve.mean, curve.low, curve.high))
    xs = numbers(curve.x or panel.x)[: len(mean)]
    color, name = style["color"], f"curve-{index}"
    if curve.points:
        axes.plot(xs, mean, label=curve.label, marker="o", gid=name, color=color, linestyle="none")
        if _has_interval(curve):
            ends = (mean - low, high - mean)
            axes.errorbar(xs, mean, ends, fmt="none", ecolor=color, elinewidth=0.8, capsize=2)
        return
    marker = "o" if len(mean) == 1 else "." if curve.x else None
    axes.plot(xs, mean, label=curve.label, marker=marker, gid=name, **style)
    if not _has_interval(curve) or bands > _MOST_BANDS:
        return
    if bands > 2 and len(xs) <= _FEW_X:
        before = sum(map(_has_interval, panel.curves[:index]))
        inches = (before - (bands - 1) / 2) * 3 / 72
        beside = ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)
        axes.vlines(
            xs, low, high, color=color, linewidth=1.2, alpha=0.6,
            transform=axes.transData + beside, gid=f"band-{index}",
        )  # fmt: skip
    else:
        opacity = 0.2 if bands < 3 else 0.1 if bands < 5 else 0.05
        axes.fill_between(
            xs, low, high, facecolor=to_rgba(color, opacity), edgecolor=to_rgba(color, 0.45),
            linewidth=0 if bands < 3 else 0.5, zorder=1, gid=f"band-{index}",
        )  # fmt: skip


def _bars(panel: Panel, axes: Axes, index: int, style: Mapping[str, Any]) -> None:
    """Draw a curve as bars beside those of the others, with its intervals; hollow where another of
    its kind comes before it. Many bars lie, one below the other."""
    curve, width = panel.curves[index], 0.8 / len(panel.curves)
    mean, low, high = map(numbers, (curve.mean, curve.low, curve.high))
    interval = np.nan_to_num((mean - low, high - mean)) if _has_interval(curve) else None
    places = numbers(panel.x)[: len(mean)] + (index - (len(panel.curves) - 1) / 2) * width
    draw, error = (axes.barh, "xerr") if _lies(panel) else (axes.bar, "yerr")
    more: dict[str, Any] = {error: interval, "label": curve.label, "gid": f"curve-{index}"}
    draw(
        places, mean, width, **more,
        fill=curve.kind not in [each.kind for each in panel.curves[:index]],
        facecolor=style["color"], edgecolor=style["color"], linewidth=0.6,
        error_kw={"elinewidth": 0.8},
    )  # fmt: skip


def _lies(panel: Panel) -> bool:
    return panel.bars and len(panel.x) * len(panel.curves) > _MOST_BARS


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


def _scales(panel: Panel, axes: Axes) -> None:
    """Set the scales of a panel's axes, with ticks that read as numbers."""
    if not (panel.bars or panel.matrix or any(curve.points for curve in panel.curves)):
        axes.set_xmargin(_MARGIN)
    if _lies(panel):
        axes.set_yticks(numbers(panel.x), panel.x_names)
        axes.margins(y=0.01)
        axes.invert_yaxis()
    elif panel.x_names:
        axes.set_xticks(numbers(panel.x), panel.x_names, rotation=45, ha="right")
    elif "x" in panel.log:
        axes.set_xscale("log")
        if not any(curve.points for curve in panel.curves):  # points lie anywhere: no ticks
            ends = axes.get_xlim()
            axes.set_xticks(numbers(panel.x), [f"{value:g}" for value in panel.x])
            axes.set_xlim(ends)  # of what is drawn: the ticks may reach beyond
            axes.xaxis.set_minor_locator(NullLocator())
    elif all(value is not None and float(value).is_integer() for value in panel.x):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=2))
    values = [value for curve in panel.curves for value in curve.mean if value is not None]
    if values and all(float(value).is_integer() for value in values):
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    if "y" in panel.log:
        _log_above_rounding(panel, axes)
    low, high = panel.limits
    if low is not None and "y" not in panel.log:
        axes.update_datalim([(0, low)], updatex=False)  # that the curves have room above them, too
        axes.autoscale_view(scalex=False)
    if panel.limits != (None, None):  # else levels beyond the curves move the ends of y
        axes.set_ylim(low, None if high is None else min(high, axes.get_ylim()[1]))


def _log_above_rounding(panel: Panel, axes: Axes) -> None:
    """Set a log scale from the least of the curves, at most a decade below the least value of one
    that is no solver's: exact solvers reach rounding error, which would squeeze all other curves.
    The scale stays linear where no such value is above 0."""

    def values(chosen: Sequence[Curve], *parts: str) -> Any:
        arrays = [numbers(getattr(curve, part)) for curve in chosen for part in parts]
        found = np.concatenate([np.empty(0), *arrays])
        return found[np.isfinite(found) & (found > 0)]

    curves = panel.curves
    means = values([curve for curve in curves if not curve.solver] or curves, "mean")
    if not len(means):
        return
    axes.set_yscale("log")
    tops = values(curves, "mean", "high")
    bottom = max(min(means.min(), 0.1) / 10, values(curves, "mean", "low").min() / 1.5)
    axes.set_ylim(bottom, max([tops.max(), *panel.levels.values()]) * 1.5)


def _figure(count: int, settings: FigureSettings) -> tuple[Figure, list[Axes]]:
    """An empty picture of so many panels, about as many beside as below each other; a paper's
    column has one beside the other only from four on."""
    columns = count if count < 4 else math.ceil(count**0.5)
    if settings.width == "column":
        columns = 1 if count < 4 else 2 if count < 7 else 3
    rows = -(-count // columns)
    if settings.width is None:
        width, height = (6.4, 4.0) if count == 1 else (5.0, 4.0) if columns == 2 else (3.3, 2.8)
        figure = Figure(figsize=(width * columns, height * rows))
    else:
        inches, tall = _INCHES[settings.width], 0.75 if columns == 1 else 0.95
        figure = Figure(figsize=(inches, rows * inches / columns * tall + 0.3))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def _name_curves(figure: Figure, panels: Sequence[Axes]) -> None:
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
    if width >= 4 and legend.get_window_extent().width <= 0.3 * figure.bbox.width:
        return
    for size in (rcParams["legend.fontsize"], _SMALLEST):
        for columns in range(len(names), 0, -1):
            legend.remove()
            legend = figure.legend(
                handles, names, loc="outside lower center", ncols=columns, fontsize=size
            )
            if legend.get_window_extent().width <= figure.bbox.width:
                break
        if -(-len(names) // columns) <= _MOST_ROWS:
            break
    figure.set_size_inches(width, height + legend.get_window_extent().height / figure.dpi)


def write_picture(figure: Figure, path: Path, form: str) -> None:
    """Write the picture in one format, the same bytes for the same picture."""
    write_with(path, lambda file: figure.savefig(file, format=form, metadata=_METADATA[form]))


def _label_log_axis(axis: Axis) -> None:
    """Set the ticks of a log axis at powers of ten, of fewer than two of them also at 2 and 5 times
    these or at more; plain numbers where these are short. Ticks that were set by hand stay."""
    if axis.get_scale() != "log" or isinstance(axis.get_major_locator(), FixedLocator):
        return
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    subs = (1,) if decades > 2.3 else (1, 2, 5)
    few = decades < _FEW_DECADES
    axis.set_major_locator(MaxNLocator("auto") if few else LogLocator(subs=subs))
    axis.set_minor_formatter(NullFormatter())
    if low >= 1e-4 and high < 1e5:
        axis.set_major_formatter(lambda x, _: f"{x / 1e3:g}k" if x >= 1e4 else f"{x:.6g}")
