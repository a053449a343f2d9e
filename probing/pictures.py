"""The pictures of a probing: errors by layer with the control and published ones (if any), and
1 − R² by context length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reloop.evaluation.bootstrap import numbers
from reloop.evaluation.figures import (
    AnyCurve,
    band,
    legend_beside,
    line,
    mark_loops,
    note_level,
    remark_lines,
    save,
    styled,
    whole_numbers,
)
from reloop.evaluation.results import unit

from .protocols import PROTOCOLS
from .results import ProbedTarget, Probing


def draw_probing(result: Probing, folder: Path) -> list[Path]:
    """Draw `<target>_by_layer` and `<target>_by_length` into `folder`, for each target; returns
    the files."""
    with styled():
        for name, target in result["targets"].items():
            _by_layer(result, name, folder / f"{name}_by_layer.png")
            _by_length(result, target, folder / f"{name}_by_length.png")
    return [
        folder / f"{name}_by_{axis}{kind}"
        for name in result["targets"]
        for axis in ("layer", "length")
        for kind in (".png", ".csv")
    ]


def error_label(result: Probing, name: str) -> str:
    """An axis label for the errors of a target: their divisors and the target's label."""
    protocol = PROTOCOLS[result["settings"]["protocol"]]
    error = "mean squared error" + " / d" * protocol.over_dims
    over_points = " / n" * (name in protocol.over_points)
    return f"{error} of {result['targets'][name]['label']}{over_points}"


def _by_layer(result: Probing, name: str, path: Path) -> None:
    """The paper's Figure 8 and the linear probes: mean over lengths."""
    target = result["targets"][name]
    figure = Figure()
    axes = figure.subplots()
    layers = list(range(len(target["error"]["mean"])))
    curves: dict[str, AnyCurve] = {"probe": target["error"], "linear": target["linear"]}
    band(axes, layers, target["error"], "probe: 2-layer MLP", line(0))
    band(axes, layers, target["linear"], "linear probe", line(2))
    if "control" in target:
        least = target["control_least"]
        axes.axhline(least["mean"], color="black", linestyle="--", linewidth=1.2, label="control")
        axes.axhspan(least["low"], least["high"], color="black", alpha=0.1, linewidth=0)
        curves["control"] = target["control"]
    if "published" in target:
        means = target["published"]["mean"]
        label = f"published:\n{target['published']['label']}"
        axes.plot(layers, numbers(means), label=label, **line(1, dashed=True))
        curves["published"] = {"mean": means}
    note_level(axes, float(np.mean(target["variance"])), "knowing nothing")
    if result["family"] != "standard":
        mark_loops(axes, result["b"], color="grey", linestyle=":")
    axes.set_ylabel(error_label(result, name))
    _finish(figure, axes, result, f"{unit(result['family'])} (0: the read-in)")
    save(figure, path, unit(result["family"]), layers, curves)


def _by_length(result: Probing, target: ProbedTarget, path: Path) -> None:
    """1 − R² of some layers. (Errors would not do: the variance of XᵀY grows with the length.)"""
    figure = Figure()
    axes = figure.subplots()
    layers = len(target["unexplained"])
    selected_layers = sorted({0, 1, layers // 4, layers // 2, layers - 1})
    curves = {
        f"{unit(result['family'])} {layer}": _unexplained(target, layer)
        for layer in selected_layers
    }
    for index, (label, curve) in enumerate(curves.items()):
        band(axes, target["lengths"], curve, label, line(index))
    note_level(axes, 1, "knowing nothing")
    axes.set_ylabel(f"1 − R² of {target['label']}")
    _finish(figure, axes, result, "context length i (pairs)")
    save(figure, path, "length", target["lengths"], curves)


def _unexplained(target: ProbedTarget, layer: int) -> AnyCurve:
    """1 − R² of a layer by length, with its interval; None if the target does not vary."""
    valid = [value is not None for value in target["unexplained"][layer]]
    return {
        part: [
            value / variance if is_valid else None
            for value, variance, is_valid in zip(
                target["by_length"][part][layer], target["variance"], valid, strict=True
            )
        ]
        for part in ("mean", "low", "high")
    }


def _finish(figure: Figure, axes: Axes, result: Probing, axis: str) -> None:
    axes.set_xlabel(axis)
    axes.set_ylim(0, 1.06 * axes.get_ylim()[1])  # room for the names of lines
    whole_numbers(axes)
    legend_beside(axes)
    task = result["task"].replace("_", " ")
    figure.suptitle(
        f"{result['family']} on {task}, d = {result['dims']}, "
        f"{result['settings']['prompts']} prompts, 90 % bands{remark_lines(result)}"
    )
