"""The training curve of a run as panels: its loss, and the curriculum below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from reloop.experiments.named.results import Curve, Panel
from reloop.training.run_folder.metrics import smoothed

_MOST = 120  # points of a curve; more lines of a log are averaged
_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_GROWING = ("loops", "dims", "points")


def training_panels(records: Sequence[dict[str, Any]], family: str) -> list[Panel]:
    """Loss by step (the line: a running mean; the band: least to largest of the log's lines there),
    and dims, points and loops where any of them changed; none for fewer than two records."""
    rows = [record for record in records if _is_number(record.get("loss"))]
    if len(rows) < 2:
        return []
    groups = [
        list(map(int, part)) for part in np.array_split(np.arange(len(rows)), min(len(rows), _MOST))
    ]
    x = [float(rows[part[-1]]["step"]) for part in groups]
    losses = [[float(rows[i]["loss"]) for i in part] for part in groups]
    each = [float(row["loss"]) for row in rows]
    smooth = smoothed(each, max(0.0, 1 - _WINDOW / len(rows)))
    means: list[float | None] = [float(smooth[part[-1]]) for part in groups]
    loss: Curve = {
        "name": "loss", "label": "loss, running mean", "kind": family, "mean": means,
        "low": [min(part) for part in losses], "high": [max(part) for part in losses],
    }  # fmt: skip
    positive = all(value > 0 for part in losses for value in part)
    panels = [
        _panel(
            "training", "Training loss (band: least to largest logged)", "loss", x, [loss], positive
        )
    ]
    growing = [
        _curve(name, [_last(rows, part, name) for part in groups])
        for name in _GROWING
        if len({row.get(name) for row in rows}) > 1
    ]
    if growing:
        panels.append(_panel("curriculum", "What grows with the step", "number", x, growing, False))
    return panels


def _last(rows: Sequence[dict[str, Any]], part: Sequence[int], name: str) -> float | None:
    value = rows[part[-1]].get(name)
    return float(value) if value is not None and _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _curve(name: str, mean: list[float | None]) -> Curve:
    return {"name": name, "label": name, "kind": name, "mean": mean, "low": [], "high": []}


def _panel(
    name: str, title: str, y_label: str, x: list[float], curves: list[Curve], log_y: bool
) -> Panel:
    return {
        "name": name, "title": title, "x_label": "step", "y_label": y_label, "x": x,
        "log_x": False, "log_y": log_y, "curves": curves, "levels": {},
    }  # fmt: skip
