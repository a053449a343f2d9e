"""The picture of leave-one-out: accuracies by table, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reloop.evaluation.bootstrap import Band, numbers
from reloop.evaluation.figures import AnyCurve, Pictures, name_curves
from reloop.evaluation.style import style_of

from .results import Accuracy, Result, TableEntry

# Points have no dashes: their shapes tell them apart in grey.
_MARKERS = {
    "looped": "o", "standard": "s", "tied": "^",
    "logistic": "v", "k-NN": "<", "forest": ">", "boosting": "P", "majority": "x",
}  # fmt: skip


def draw_accuracies(result: Result, pictures: Pictures) -> None:
    """Draw accuracy.png, with its CSV: models and solvers with intervals, published numbers as open
    diamonds, the share of the larger class as a bar."""
    entries = result["tables"]
    curves, labels = accuracy_curves(entries), [entry["label"] for entry in entries]
    positions = np.arange(len(entries))
    figure = pictures.figure(8.0, 1.6 + 0.55 * len(entries))
    axes = figure.subplots()
    models = [name for name in curves if not name.endswith(", paper")]
    for index, name in enumerate(models):
        offset = 0.6 * ((index + 0.5) / len(models) - 0.5)
        colour, heights = style_of(name)["color"], positions + offset
        marker = _MARKERS.get(name, "o")
        mean, low, high = (numbers(curves[name][part]) for part in ("mean", "low", "high"))
        ends = (mean - low, high - mean)
        axes.errorbar(mean, heights, xerr=ends, fmt=marker, markersize=4, color=colour, label=name)
        if f"{name}, paper" in curves:
            mean, label = numbers(curves[f"{name}, paper"]["mean"]), f"{name}, paper"
            axes.plot(mean, heights, "D", markerfacecolor="none", color=colour, label=label)
    shares = [entry["majority_share"] for entry in entries]
    axes.vlines(shares, positions - 0.4, positions + 0.4, color="grey", label="larger class")
    axes.set_yticks(positions, labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"accuracy, {result['k']} rows of context")
    spread = "std" if result["settings"].protocol == "reference" else "90 % interval"
    pictures.title(figure, f"held-out tables, {spread}")
    name_curves(figure)
    curves["larger_class"] = {"mean": shares}
    pictures.save(figure, "accuracy", "table", labels, curves)


def accuracy_curves(entries: Sequence[TableEntry]) -> dict[str, AnyCurve]:
    """Mean, low and high by table, by the name in the legend; None for a table without a value."""
    by_name: dict[str, list[Accuracy | None]] = {}
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


def _curve(values: Sequence[Accuracy | None]) -> Band:
    mean, low, high = map(list, zip(*map(_ends, values), strict=True))
    return {"mean": mean, "low": low, "high": high}


def _ends(value: Accuracy | None) -> tuple[float | None, float | None, float | None]:
    if value is None:
        return None, None, None
    mean, std = value["mean"], value.get("std", 0.0)
    return mean, value.get("low", mean - std), value.get("high", mean + std)
