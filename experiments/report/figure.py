"""A picture of lines as what the page holds of it: its numbers as CSV in a link, which the page's
script draws, what the columns are, and a sentence that says what is shown."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypedDict
from urllib.parse import quote

from looplab.conf.schema import Baseline
from looplab.conf.setting import names_of
from looplab.evaluation.style import LineStyle, style_of_number, styles_of
from looplab.experiments.named.results import Curve, Panel

_DIGITS = 5  # of a number in the page: more than a picture shows
_SOLVERS = {*names_of(Baseline), "published"}  # kinds that do not decide on an axis
_KEPT = ("b", "at", "points")  # of a curve, for the script
_READ = ("loop", "layer")  # a slider says at which one a reader wants the values
_NAMED = 4  # curves whose numbers the sentence gives
# What a data link may hold as it is; quote adds letters, digits and _.-~
_PLAIN = ",:;=+*/()@!$[]"


class Figure(TypedDict):
    """A picture in the page. `csv` is a data link, `file` the name under which it is saved, `chart`
    what the script needs to draw it, `command` what makes its numbers."""

    title: str
    sentence: str
    file: str
    csv: str
    chart: dict[str, Any]
    command: str


def figure(panel: Panel, command: str, *, of: str = "") -> Figure:
    """A panel as a figure; `of` is what it belongs to, for the name of its file."""
    table, curves = _table(panel)
    chart = {
        "x": panel["x_label"],
        "y": panel["y_label"],
        "logX": panel["log_x"],
        "logY": panel["log_y"],
        "curves": curves,
        "levels": panel["levels"],
        "slider": panel.get("slider", ""),
        "start": panel.get("start"),
        "read": panel.get("read", panel["x_label"] if panel["x_label"] in _READ else ""),
        "names": panel.get("x_names", []),
    }
    name = re.sub(r"[^\w.-]+", "_", f"{of}-{panel['name']}" if of else panel["name"])
    return {
        "title": panel["title"],
        "sentence": _sentence(panel),
        "file": f"{name}.csv",
        "csv": data_link(table),
        "chart": chart,
        "command": command,
    }


def data_link(text: str) -> str:
    """A CSV text as a link that holds it."""
    return f"data:text/csv;charset=utf-8,{quote(text, safe=_PLAIN)}"


def csv_text(columns: Mapping[str, Iterable[Any]]) -> str:
    """Columns of numbers or texts as CSV, shorter ones filled up with empty cells."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([" ".join(name.split()) for name in columns])
    writer.writerows(zip_longest(*(map(_cell, values) for values in columns.values())))
    return text.getvalue()


def short(value: float | None) -> str:
    """A number as the page writes it: 0.0123, 1.5e-13; – where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"


def _table(panel: Panel) -> tuple[str, list[dict[str, Any]]]:
    """The CSV of a panel, and for each curve its label, its looks and its columns' numbers."""
    columns: dict[str, Sequence[Any]] = {panel["x_label"]: panel["x"]}
    styles = _styles(panel)
    curves = []
    for curve in panel["curves"]:
        style = styles[curve["label"]]
        entry: dict[str, Any] = {
            "label": curve["label"],
            "colour": style["color"],
            "dash": [] if style["linestyle"] == "-" else style["linestyle"][1],
            "model": curve["kind"] not in _SOLVERS,
            "x": _add(columns, curve, "x") if "x" in curve else 0,
            "mean": _add(columns, curve, "mean"),
        }
        if any(value is not None for value in curve["low"]):
            entry |= {part: _add(columns, curve, part) for part in ("low", "high")}
        entry |= {key: value for key, value in curve.items() if key in _KEPT}
        curves.append(entry)
    if names := panel.get("x_names"):
        columns["name"] = [
            " ".join(name.split()) for name in names
        ]  # last: the script counts on it
    return csv_text(columns), curves


def _styles(panel: Panel) -> dict[str, LineStyle]:
    """The style of each label."""
    kinds = {curve["label"]: curve["kind"] for curve in panel["curves"]}
    styles = dict(zip(kinds, styles_of(list(kinds.values())), strict=True))
    numbers = {c["label"]: style_of_number(c["number"]) for c in panel["curves"] if "number" in c}
    return styles | numbers


def _add(columns: dict[str, Sequence[Any]], curve: Curve, part: str) -> int:
    """Add a part of a curve as a column with a name of its own; returns its number."""
    label = f"{curve['label']}, {curve['at']:g}" if "at" in curve else curve["label"]
    name, number = f"{label} {part}", 1
    while name in columns:
        number += 1
        name = f"{label} ({number}) {part}"
    columns[name] = curve[part]  # type: ignore[literal-required]
    return len(columns) - 1


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}" if math.isfinite(value) else ""
    return "" if value is None else value


def _sentence(panel: Panel) -> str:
    """What a panel shows, and the numbers at its right end of the first few curves."""
    start = panel.get("start")
    shown = [curve for curve in panel["curves"] if curve.get("at", start) == start]
    ends = [(curve, _end(curve, panel["x"])) for curve in shown]
    known = [(curve, end) for curve, end in ends if end is not None]
    at = {end.x for _, end in known}
    texts = [
        f"{curve['label']}: {end.text}" + (f" at {_x_text(panel, end.x)}" if len(at) > 1 else "")
        for curve, end in known[:_NAMED]
    ]
    more = len(known) - _NAMED
    texts += [f"and {more} more"] if more > 0 else []
    place = f" At {_x_text(panel, max(at))}:" if len(at) == 1 else ""
    return f"{panel['y_label']} by {panel['x_label']}.{place} {'; '.join(texts) or 'No numbers'}."


def _x_text(panel: Panel, x: float) -> str:
    """A value of x, by its name where it has one."""
    names = panel.get("x_names")
    return names[panel["x"].index(x)] if names else f"{x:g}"


class _End(NamedTuple):
    x: float
    text: str


def _end(curve: Curve, x: Sequence[float | None]) -> _End | None:
    """A curve's number at its right end; None where it has none."""
    pairs = enumerate(curve.get("x", x))
    ends = [
        (value, i) for i, value in pairs if value is not None and _at(curve, "mean", i) is not None
    ]
    if not ends:
        return None
    last, i = max(ends)
    low, high = _at(curve, "low", i), _at(curve, "high", i)
    interval = "" if low is None or high is None else f" ({short(low)} to {short(high)})"
    return _End(last, short(_at(curve, "mean", i)) + interval)


def _at(curve: Curve, part: str, index: int) -> float | None:
    values: Sequence[float | None] = curve[part]  # type: ignore[literal-required]
    return values[index] if index < len(values) else None
