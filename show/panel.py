"""Pictures as data: a `Panel` is what every measurement returns, what one renderer draws
(`drawing.save_panels`) and what the report shows.

panel = Panel("error", "Error by loop", "loop", "squared error", [1, 2, 3], [curve], log="y")
panel.draw(axes)                 # on a researcher's own axes
panel.frame()                    # its numbers, a pandas table
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from looplab.evaluation.bootstrap import Band, Interval
from looplab.evaluation.plain import Content, Fields
from looplab.evaluation.statistics import interval_over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of a panel: means with 90 % intervals at the panel's x (None where there is none).

    `kind` decides colour and dash, the same in every picture: a family of models (looped, standard,
    tied) or the name of a solver. `name` is that of its columns, `number` where curves stand for
    numbers, as of loops, which: larger ones are darker. `solver`: whether it is drawn beside the
    models, so that it does not decide on the axis. `b`: the loops that the model was trained with,
    where x counts loops. `x`: its own, where it is not the panel's. `points`: drawn as points that
    no line joins.

    Examples
    --------
    >>> from looplab import Curve
    >>> Curve(label="looped", kind="looped", mean=[0.5, 0.25]).mean
    [0.5, 0.25]
    """

    label: str
    kind: str
    mean: Values
    low: Values = ()
    high: Values = ()
    name: str = ""
    number: float | None = None
    solver: bool = False
    b: int | None = None
    x: Values | None = None
    points: bool = False

    @classmethod
    def of(cls, label: str, kind: str, values: Interval | Band, **more: Any) -> Curve:
        """A curve of a mean with its interval, None where a number is not finite."""
        # JSON has no infinity: an end without a number is None in a picture's file.
        if isinstance(values, Interval):
            numbers = np.array(values, dtype=np.float64)
            numbers[~np.isfinite(numbers)] = np.nan
            values = Interval(*numbers).to_json()
        # A name for columns and ids: the label in the letters that they may have.
        more.setdefault("name", file_name(label))
        return cls(label=label, kind=kind, **values, **more)


@dataclass(frozen=True)
class Panel:
    """Curves over numbers, bars over names, or a matrix of colours; `name` is that of its files.

    `undrawn` curves have numbers in its table and no line in its picture. `log` names the axes with
    log scales ("xy"), `limits` the ends of y that are given, `levels` horizontal lines, `marks`
    vertical ones. `x_names` are what the values of x stand for: tables, not numbers. `matrix` has
    values between -1 and 1 over x and x, None where there is none. Panels of one `picture` are
    drawn in one file of that name.

    Examples
    --------
    >>> from looplab import Curve, Panel
    >>> curve = Curve(label="looped", kind="looped", mean=[0.5, 0.25], name="looped")
    >>> Panel("error", "Error by loop", "loop", "error", [1, 2], [curve], log="y").frame().shape
    (2, 2)
    """

    name: str
    title: str
    x_label: str
    y_label: str
    x: Values
    curves: Sequence[Curve] = ()
    log: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    levels: Mapping[str, float] = field(default_factory=dict)
    x_names: Sequence[str] = ()
    bars: bool = False
    matrix: Sequence[Values] = ()
    picture: str = ""
    undrawn: Sequence[Curve] = ()
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def draw(self, axes: Axes) -> None:
        """Draw the panel on matplotlib's axes, labels and scales included, without a title."""
        from .drawing import draw_panel

        draw_panel(self, axes)

    def legend(self) -> list[str]:
        """The names in its legend: those of curves, levels and marks."""
        names = [curve.label for curve in self.curves]
        names += self.levels
        names += self.marks
        return names

    def renamed(self, names: Mapping[str, str]) -> Panel:
        """The panel with new names in its legend, by the old ones; others stay."""
        curves = []
        for curve in self.curves:
            curves.append(replace(curve, label=names.get(curve.label, curve.label)))
        levels = {names.get(name, name): height for name, height in self.levels.items()}
        marks = {names.get(name, name): places for name, places in self.marks.items()}
        return replace(self, curves=curves, levels=levels, marks=marks)

    def frame(self) -> DataFrame:
        """The numbers of the panel: a column x, then those of the curves; shorter ones end in nan.

        A curve has `<curve>_mean`, `<curve>_low`, `<curve>_high`, and `<curve>_x` where it has an x
        of its own.
        """
        from pandas import DataFrame, Series

        columns: dict[str, Sequence[Any]] = {self.x_label: self.x_names or self.x}
        for curve in (*self.curves, *self.undrawn):
            parts = {"x": curve.x, "mean": curve.mean, "low": curve.low, "high": curve.high}
            for part, values in parts.items():
                if values:
                    columns[f"{curve.name}_{part}"] = values
        # A matrix has a column for each x, and a row for each x as well.
        columns |= dict(zip(map(str, self.x), self.matrix, strict=False))
        return DataFrame({name: Series(values) for name, values in columns.items()})

    def plain(self) -> Fields:
        """The panel as JSON has it, without what is as by default."""
        plain = _plain(self)
        plain["curves"] = [_plain(curve) for curve in self.curves]
        if self.undrawn:
            plain["undrawn"] = [_plain(curve) for curve in self.undrawn]
        return plain

    @classmethod
    def read(cls, values: Content) -> Panel:
        """The panel of what `plain` returned."""
        known = dict(values)
        for part in ("curves", "undrawn"):
            known[part] = [Curve(**curve) for curve in values.get(part, ())]
        return cls(**known)


def _plain(shown: Panel | Curve) -> Fields:
    """The fields that are not as by default, and all numbers, as floats."""
    plain = {}
    for declared in fields(shown):
        name = declared.name
        value = getattr(shown, name)
        default = declared.default
        if declared.default_factory is not MISSING:
            default = declared.default_factory()
        if name in ("x", "mean", "low", "high"):
            plain[name] = value and [None if v is None else float(v) for v in value]
        elif value != default:
            plain[name] = dict(value) if isinstance(value, Mapping) else value
    return plain


def mean_of_seeds(values: ArrayLike | Sequence[Values], log: bool = False) -> Interval:
    """The mean of values [seeds, x] at each x over the seeds that have one (None and what is not
    finite: none), nan without any; with its 90 % interval, nan for one seed. `log` is for errors
    and other positive values: then no end is below zero.

    Examples
    --------
    >>> from looplab import mean_of_seeds
    >>> mean_of_seeds([[0.5, 0.2], [0.7, 0.4]]).mean.round(2).tolist()
    [0.6, 0.3]
    """
    rows = np.array(values, dtype=np.float64)
    points = np.full((rows.T.shape[0], 3), np.nan)  # mean, low and high at each x
    for index, column in enumerate(rows.T):
        known = column[np.isfinite(column)]
        if len(known) > 1:
            # [seeds, 1]: one value a seed, so that the interval is over seeds alone.
            points[index] = interval_over_seeds([known[:, None]], log=log)
        elif len(known) == 1:
            points[index, 0] = known[0]
    # Rows of x as three columns: means, lows and highs.
    return Interval(*points.T)


def without_interval(values: ArrayLike) -> Interval:
    """Values [x] that have no interval."""
    mean = np.array(values, dtype=np.float64)
    return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))


def padded(values: Values, length: int) -> list[float | None]:
    """The values with None at their end, `length` in all."""
    filled = list(values)
    filled += [None] * (length - len(values))
    return filled


def file_name(label: str) -> str:
    """A label in letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
