"""A panel as the page holds it: its picture, its numbers as CSV in a link, the names of its curves,
and a sentence that says what is shown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict
from urllib.parse import quote

from looplab.evaluation.drawing import curve_styles, svg
from looplab.evaluation.panel import Curve, Panel, Values

_DIGITS = "%.5g"  # of a number in the page: more than a picture shows
_NAMED = 4  # curves whose numbers the sentence gives
# What a data link may hold as it is; quote adds letters, digits and _.-~
_PLAIN = ",:;=+*/()@!$[]"


class Figure(TypedDict):
    """A picture in the page. `csv` is a data link, `file` the name under which it is saved, `names`
    the legend: for each label its colour and the numbers of its curves; `ats` has the value of
    `slider` for each curve, `start` the first that is shown, `command` what makes the numbers."""

    title: str
    sentence: str
    file: str
    csv: str
    svg: str
    names: list[dict[str, Any]]
    slider: str
    ats: list[float | None]
    start: float | None
    command: str


def figure(panel: Panel, command: str, *, of: str = "") -> Figure:
    """A panel as a figure; `of` is what it belongs to, for the name of its file."""
    names: dict[str, dict[str, Any]] = {}
    for index, (curve, style) in enumerate(
        zip(panel.curves, curve_styles(panel.curves), strict=True)
    ):
        dash = (
            "" if style["linestyle"] == "-" else " ".join(f"{n:g}" for n in style["linestyle"][1])
        )
        entry = {"label": curve.label, "colour": style["color"], "dash": dash, "curves": []}
        names.setdefault(curve.label, entry)["curves"].append(index)
    frame = panel.frame()
    # The page's script splits rows at commas.
    frame.columns = [re.sub(r"[,\s]+", " ", str(name)) for name in frame.columns]
    if panel.x_names:
        frame.iloc[:, 0] = [re.sub(r"[,\s]+", " ", name) for name in panel.x_names]
    name = re.sub(r"[^\w.-]+", "_", f"{of}-{panel.name}" if of else panel.name)
    return {
        "title": panel.title,
        "sentence": _sentence(panel),
        "file": f"{name}.csv",
        "csv": data_link(frame.to_csv(index=False, float_format=_DIGITS)),
        # Ids of marks and clips, which pictures share, are made the page's own.
        "svg": re.sub(r'(id="|#)(?=[mp][0-9a-f]{10})', rf"\1{name}-", svg(panel)),
        "names": list(names.values()),
        "slider": panel.slider,
        "ats": [curve.at for curve in panel.curves],
        "start": panel.start,
        "command": command,
    }


def data_link(text: str) -> str:
    """A CSV text as a link that holds it."""
    return f"data:text/csv;charset=utf-8,{quote(text, safe=_PLAIN)}"


def short(value: float | None) -> str:
    """A number as the page writes it: 0.0123, 1.5e-13; – where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"


def _sentence(panel: Panel) -> str:
    """What a panel shows, and the numbers at its right end of the first few curves."""
    shown = [curve for curve in panel.curves if curve.at in (None, panel.start)]
    ends = [(curve, _end(curve, panel.x)) for curve in shown]
    known = [(curve, end) for curve, end in ends if end is not None]
    at = {end.x for _, end in known}
    texts = [
        f"{curve.label}: {end.text}" + (f" at {_x_text(panel, end.x)}" if len(at) > 1 else "")
        for curve, end in known[:_NAMED]
    ]
    more = len(known) - _NAMED
    texts += [f"and {more} more"] if more > 0 else []
    place = f" At {_x_text(panel, max(at))}:" if len(at) == 1 else ""
    return f"{panel.y_label} by {panel.x_label}.{place} {'; '.join(texts) or 'No numbers'}."


def _x_text(panel: Panel, x: float) -> str:
    """A value of x, by its name where it has one."""
    return panel.x_names[list(panel.x).index(x)] if panel.x_names else f"{x:g}"


class _End(NamedTuple):
    x: float
    text: str


def _end(curve: Curve, x: Values) -> _End | None:
    """A curve's number at its right end; None where it has none."""
    pairs = enumerate(curve.x or x)
    ends = [
        (value, i) for i, value in pairs if value is not None and _at(curve.mean, i) is not None
    ]
    if not ends:
        return None
    last, i = max(ends)
    low, high = _at(curve.low, i), _at(curve.high, i)
    interval = "" if low is None or high is None else f" ({short(low)} to {short(high)})"
    return _End(last, short(_at(curve.mean, i)) + interval)


def _at(values: Sequence[float | None], index: int) -> float | None:
    return values[index] if index < len(values) else None
