"""The pictures of a probing: errors by layer with the control, and 1 − R² by context length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.figures import (
    Curve,
    band,
    legend_beside,
    line,
    mark_loops,
    note_level,
    save,
    styled,
    whole_numbers,
)


def draw_probing(result: Mapping[str, Any], folder: Path) -> None:
    """Draw `<target>_by_layer` and `<target>_by_length` into `folder`, for each target."""
    with styled():
        for name, target in result["targets"].items():
            _by_layer(result, target, folder / f"{name}_by_layer.png")
            _by_length(result, target, folder / f"{name}_by_length.png")


def _by_layer(result: Mapping[str, Any], target: Mapping[str, Any], path: Path) -> None:
    """The paper's Figure 8, with the linear probes beside: mean over lengths."""
    figure = Figure()
    axes = figure.subplots()
    layers = list(range(len(target["error"]["mean"])))
    shown: dict[str, Curve] = {"probe": target["error"], "linear": target["linear"]}
    band(axes, layers, target["error"], "probe: 2-layer MLP", line(0))
    band(axes, layers, target["linear"], "linear probe", line(2))
    if "control" in target:
        least = target["control_least"]
        axes.axhline(least["mean"], color="black", linestyle="--", linewidth=1.2, label="control")
        axes.axhspan(least["low"], least["high"], color="black", alpha=0.1, linewidth=0)
        shown["control"] = target["control"]
    mark_loops(axes, result["b"], color="grey", linestyle=":")
    axes.set_ylabel(f"{_error(result)} of {target['label']}")
    _finish(figure, axes, result, f"{_unit(result)} (0: the read-in)")
    save(figure, path, _unit(result), layers, shown)


def _by_length(result: Mapping[str, Any], target: Mapping[str, Any], path: Path) -> None:
    """1 − R² of the first layers and the last: XᵀY's own size grows with the length."""
    figure = Figure()
    axes = figure.subplots()
    layers = len(target["unexplained"])
    some = sorted({0, 1, layers // 4, layers // 2, layers - 1})
    shown: dict[str, Curve] = {}
    for index, layer in enumerate(some):
        curve = {"mean": target["unexplained"][layer]}
        shown[f"{_unit(result)}_{layer}"] = curve
        flat = dict.fromkeys(("mean", "low", "high"), curve["mean"])
        band(axes, target["lengths"], flat, f"{_unit(result)} {layer}", line(index))
    note_level(axes, 1, "knowing nothing")
    axes.set_ylabel(f"1 − R² of {target['label']}")
    _finish(figure, axes, result, "context length i (pairs)")
    save(figure, path, "length", target["lengths"], shown)


def _finish(figure: Figure, axes: Axes, result: Mapping[str, Any], axis: str) -> None:
    axes.set_xlabel(axis)
    axes.set_ylim(bottom=0)
    whole_numbers(axes)
    legend_beside(axes)
    task = result["task"].replace("_", " ")
    figure.suptitle(
        f"{result['family']} on {task}, d = {result['dims']}, "
        f"{result['settings']['prompts']} prompts, 90 % bands"
    )


def _unit(result: Mapping[str, Any]) -> str:
    return "layer" if result["family"] == "standard" else "loop"


def _error(result: Mapping[str, Any]) -> str:
    return "error / d" if result["settings"]["protocol"] == "reference" else "mean squared error"
