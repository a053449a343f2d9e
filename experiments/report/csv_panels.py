"""The CSV behind a picture of the suite as panels: for results whose JSON has a form of its own.

panels_of(Path("stability/toy-0123456789ab.csv"), "toy")
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from reloop.experiments.named.results import Curve, Panel

_PARTS = ("standard_error", "mean", "low", "high")
_LOG_ABOVE = 30  # times the least value: a larger range is shown on a log axis
Values = list[float | None]


def panels_of(path: Path, title: str) -> list[Panel]:
    """A panel for each group of columns `<group>_<curve>_<part>`, or one for all of them where the
    first words make no groups. Raises ValueError for a CSV without a column of numbers to draw
    against, OSError for one that cannot be read."""
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    columns = {
        name: [_number(cell) for cell in cells] for name, *cells in zip(head, *rows, strict=True)
    }
    x = columns[head[0]]
    if not x or any(value is None for value in x):
        raise ValueError(f"{path.name} has no axis of numbers")
    curves: dict[str, dict[str, Values]] = {}
    for name in head[1:]:
        part = next((part for part in _PARTS if name.endswith(f"_{part}")), "")
        curve = name.removesuffix(f"_{part}") if part else name
        curves.setdefault(curve, {})[part or "mean"] = columns[name]
    xs = [value for value in x if value is not None]
    panels = []
    for group, members in _groups(curves).items():
        text = f"{title}: {group}" if group else title
        panels.append(_panel(path.stem, text, group or "value", head[0], xs, members))
    return panels


def _groups(curves: dict[str, dict[str, Values]]) -> dict[str, dict[str, dict[str, Values]]]:
    """The curves by the first word of their names, where each such word has several."""
    groups: dict[str, dict[str, dict[str, Values]]] = {}
    for name, parts in curves.items():
        group, _, rest = name.partition("_")
        groups.setdefault(group, {})[rest or name] = parts
    if len(groups) > 1 and all(len(group) > 1 for group in groups.values()):
        return groups
    return {"": curves}


def _panel(
    name: str, title: str, y_label: str, x_label: str, x: Sequence[float],
    curves: dict[str, dict[str, Values]],
) -> Panel:  # fmt: skip
    drawn = [_curve(curve, parts) for curve, parts in curves.items()]
    values = [value for curve in drawn for value in curve["mean"] if value is not None]
    return {
        "name": f"{name}-{y_label}",
        "title": title,
        "x_label": x_label.replace("_", " "),
        "y_label": y_label.replace("_", " "),
        "x": list(x),
        "log_x": _wide(x),
        "log_y": _wide(values),
        "curves": drawn,
        "levels": {},
    }


def _curve(name: str, parts: dict[str, Values]) -> Curve:
    mean, low, high = parts.get("mean", []), parts.get("low", []), parts.get("high", [])
    if "standard_error" in parts:
        pairs = list(zip(mean, parts["standard_error"], strict=True))
        low, high = ([_plus(m, sign, e) for m, e in pairs] for sign in (-1, 1))
    label = name.replace("_", " ")
    return {
        "name": name, "label": label, "kind": label.rpartition(" ")[2],
        "mean": mean, "low": low, "high": high,
    }  # fmt: skip


def _plus(mean: float | None, sign: int, error: float | None) -> float | None:
    return None if mean is None or error is None else mean + sign * error


def _wide(values: Sequence[float]) -> bool:
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) > _LOG_ABOVE


def _number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return None
