"""The picture of leave-one-out: accuracies by table, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reloop.evaluation.figures import Curve, legend_beside, line, save, styled

_PAPER_MARK = "D"


def draw_accuracies(result: Mapping[str, Any], folder: Path) -> None:
    """Draw accuracy.png into `folder`, with its CSV: models and solvers with intervals, published
    numbers as open diamonds, the share of the larger class as a bar."""
    entries = result["tables"]
    curves = _curves(entries)
    positions = np.arange(len(entries))
    with styled():
        figure = Figure(figsize=(8.0, 1.6 + 0.55 * len(entries)))
        axes = figure.subplots()
        models = [name for name in curves if not name.endswith(", paper")]
        for index, name in enumerate(models):
            offset = 0.6 * ((index + 0.5) / len(models) - 0.5)
            _marks(axes, positions + offset, curves[name], name, line(index)["color"])
            if f"{name}, paper" in curves:
                mean = _numbers(curves[f"{name}, paper"]["mean"])
                axes.plot(
                    mean,
                    positions + offset,
                    _PAPER_MARK,
                    markerfacecolor="none",
                    color=line(index)["color"],
                    label=f"{name}, paper",
                )
        shares = [entry["majority_share"] for entry in entries]
        axes.vlines(shares, positions - 0.4, positions + 0.4, color="grey", label="larger class")
        axes.set_yticks(positions, [entry["label"] for entry in entries])
        axes.invert_yaxis()
        axes.set_xlabel(f"accuracy, {result['k']} rows of context")
        legend_beside(axes)
        spread = "std" if result["settings"]["protocol"] == "reference" else "90 % interval"
        figure.suptitle(f"held-out tables, {spread}")
        curves["larger_class"] = {"mean": shares}
        names: Any = [entry["label"] for entry in entries]
        save(figure, folder / "accuracy.png", "table", names, curves)


def _curves(entries: list[Mapping[str, Any]]) -> dict[str, Curve]:
    """Mean, low and high by table, by the name in the legend; None for a table without a value."""
    by_name: dict[str, list[Mapping[str, float] | None]] = {}
    for index, entry in enumerate(entries):
        accuracies = {family: model["accuracy"] for family, model in entry["models"].items()}
        accuracies |= entry["solvers"]
        accuracies |= {
            f"{family}, paper": model["published"]
            for family, model in entry["models"].items()
            if model["published"]
        }
        for name, value in accuracies.items():
            by_name.setdefault(name, [None] * len(entries))[index] = value
    return {name: _curve(values) for name, values in by_name.items()}


def _curve(values: list[Mapping[str, float] | None]) -> Curve:
    ends = [_ends(value) if value else (None, None, None) for value in values]
    return dict(zip(("mean", "low", "high"), map(list, zip(*ends, strict=True)), strict=True))


def _ends(value: Mapping[str, float]) -> tuple[float, float, float]:
    mean, std = value["mean"], value.get("std", 0.0)
    return mean, value.get("low", mean - std), value.get("high", mean + std)


def _marks(axes: Axes, heights: Any, curve: Curve, label: str, colour: str) -> None:
    mean, low, high = (_numbers(curve[part]) for part in ("mean", "low", "high"))
    axes.errorbar(
        mean,
        heights,
        xerr=(mean - low, high - mean),
        fmt="o",
        markersize=4,
        color=colour,
        label=label,
    )


def _numbers(values: Any) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
