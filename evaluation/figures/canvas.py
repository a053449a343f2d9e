"""Where pictures are drawn and how they are saved: their size, their letters, their formats, and
the CSV beside each."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from looplab.conf.schema import FigureSettings
from looplab.training.run_folder.files import read_record, write_bytes, write_with

from ..artefacts import is_shown, show
from .curves import AnyCurve, label_log_axis, parts

FORMATS = ("png", "pdf", "svg")
_INCHES = {"column": 3.25, "page": 6.75}
_POINTS = {None: 10.0, "column": 7.5, "page": 8.5}  # of letters
_LINES = {None: 1.6, "column": 1.1, "page": 1.4}  # widths in points
_NARROWEST = 1.5  # inches of a panel, before panels are moved below each other
_FEW_PANELS = 3
_TALLER = 1.15  # a picture's height over its width, over that of a screen's
_CHARACTERS_PER_INCH = 13  # in letters of 10 points, a lower bound
_STYLE: dict[Any, Any] = {
    "figure.figsize": (6.4, 4.0),
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
    # Names may contain $, so mathtext is off; `save` formats powers of ten without it.
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    # Letters stay letters in a PDF, and the same picture is the same SVG.
    "pdf.fonttype": 42,
    "svg.hashsalt": "looplab",
}
# The same picture is the same file, whenever it is drawn.
_METADATA: dict[str, dict[str, None]] = {
    "png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None},
}  # fmt: skip


def styled(settings: FigureSettings | None = None) -> AbstractContextManager[None]:
    """The context in which every figure is made and saved."""
    settings = settings or FigureSettings()
    sizes = {"font.size": _POINTS[settings.width], "lines.linewidth": _LINES[settings.width]}
    narrow = {} if settings.width is None else {"figure.titlesize": "medium", "figure.dpi": 300}
    return rc_context(_STYLE | sizes | narrow)


class Pictures:
    """A folder and the pictures that are drawn into it, in the style and the sizes of `settings`,
    as long as the context lasts. `files` are those written."""

    def __init__(self, folder: Path, settings: FigureSettings | None = None) -> None:
        self.folder, self.settings = folder, settings or FigureSettings()
        self.files: list[Path] = []

    def __enter__(self) -> Pictures:
        self._style = styled(self.settings)
        self._style.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._style.__exit__(None, None, None)

    def figure(self, width: float = 6.4, height: float = 4.0) -> Figure:
        """An empty picture of these inches on a screen; in a paper it has the paper's width, and is
        as tall in proportion, in a column a little taller."""
        inches = _INCHES.get(self.settings.width or "")
        if inches is None:
            return Figure(figsize=(width, height))
        tall = height / width * (_TALLER if self.settings.width == "column" else 1)
        return Figure(figsize=(inches, inches * min(tall, 0.9)))

    def panels(
        self, count: int, columns: int, width: float, height: float, share_y: bool = False
    ) -> tuple[Figure, list[Any]]:
        """A picture of `count` panels, each of these inches on a screen, at most so many beside
        each other; in a paper fewer where they would be too narrow, and a few below each other."""
        columns = min(columns, count)
        inches = _INCHES.get(self.settings.width or "")
        if inches is not None:
            most = int(inches / _NARROWEST)
            columns = 1 if most < columns + 1 and count <= _FEW_PANELS else min(columns, most)
        rows = -(-count // columns)
        figure = self._of_panels(rows, columns, width, height)
        grid = list(figure.subplots(rows, columns, sharey=share_y, squeeze=False).flat)
        for axes in grid[count:]:
            axes.remove()
        return figure, grid[:count]

    def grid(
        self,
        rows: int,
        columns: int,
        width: float,
        height: float,
        share_x: bool | str = False,
        share_y: bool | str = False,
        heights: Sequence[float] | None = None,
    ) -> tuple[Figure, NDArray[Any]]:
        """A picture of panels [rows, columns], each of these inches on a screen; in a paper with
        columns in place of rows where they would be too narrow otherwise. `heights` are the rows'
        in proportion, where they stay rows."""
        inches = _INCHES.get(self.settings.width or "")
        share: dict[str, Any] = {"sharex": share_x, "sharey": share_y, "squeeze": False}
        if inches is None or inches / columns >= _NARROWEST or rows >= columns:
            figure = self._of_panels(rows, columns, width, height)
            return figure, figure.subplots(rows, columns, height_ratios=heights, **share)
        turned = {"row": "col", "col": "row"}
        share |= {"sharex": turned.get(str(share_x), share_x)}
        share |= {"sharey": turned.get(str(share_y), share_y)}
        figure = self._of_panels(columns, rows, width, height)
        return figure, figure.subplots(columns, rows, **share).T

    def _of_panels(self, rows: int, columns: int, width: float, height: float) -> Figure:
        inches = _INCHES.get(self.settings.width or "")
        if inches is None:
            return Figure(figsize=(width * columns, height * rows))
        panel = inches / columns
        tall = min(_TALLER * height / width, 1.0 if columns > 1 else 0.75)
        return Figure(figsize=(inches, rows * panel * tall + 0.3))

    def title(self, figure: Figure, text: str, remarks: Iterable[str] = ()) -> None:
        """Set a picture's title, if it is to have one, with the remarks on its runs below it, which
        it has in any case."""
        lines = [*(text.splitlines() if self.settings.title else []), *remarks]
        if lines:
            title = figure.suptitle("")
            inches = figure.get_figwidth() * 10 / float(title.get_fontsize())
            title.set_text(_wrapped("\n".join(lines), inches))

    def save(
        self,
        figure: Figure,
        name: str,
        axis: str,
        x: Sequence[float | str | None],
        curves: Mapping[str, AnyCurve],
    ) -> None:
        """Write the picture called `name` and its CSV, as `save` does."""
        path = self.folder / f"{name}.png"
        self.files += save(figure, path, axis, x, curves, self.settings)


def save(
    figure: Figure,
    path: Path,
    axis: str,
    x: Sequence[float | str | None],
    curves: Mapping[str, AnyCurve],
    settings: FigureSettings | None = None,
) -> list[Path]:
    """Write the picture at `path`, with the endings of the formats of `settings`, and a CSV of its
    values beside it: the axis, then the parts of each curve; returns the files. Files of an earlier
    drawing in other formats are removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for axes in figure.axes:
        label_log_axis(axes.xaxis)
        label_log_axis(axes.yaxis)
        _wrap_labels(axes)
    files = []
    for form in FORMATS:
        file = path.with_suffix(f".{form}")
        if form in (settings or FigureSettings()).format:
            write_picture(figure, file, form)
            files.append(file)
        else:
            file.unlink(missing_ok=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([axis, *(f"{name}_{part}" for name in curves for part in curves[name])])
    columns = [values for curve in curves.values() for values in parts(curve).values()]
    writer.writerows(zip(x, *columns, strict=True))
    write_bytes(path.with_suffix(".csv"), text.getvalue().encode())
    return [*files, path.with_suffix(".csv")]


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


def drawn_once(
    record: Path, key: str, settings: FigureSettings, draw: Callable[[Pictures], object]
) -> list[Path]:
    """Draw into the folder of `record`, unless its pictures are those of this key and these
    settings and unaltered; returns the files of all pictures."""
    expected = {"key": key, "figures": settings.plain()}
    if not is_shown(record, "figures", expected):
        with Pictures(record.parent, settings) as pictures:
            draw(pictures)
        show(record, "figures", expected, pictures.files)
    content = read_record(record, "figures").content or {}
    return [record.parent / name for name in content.get("files", {})]
