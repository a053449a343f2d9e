"""The pictures of a comparison: errors by examples, by loop, and minus the first run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from ..figures import (
    AnyCurve,
    band,
    error_axis,
    error_scale,
    line,
    mark_loops,
    note_level,
    padded,
    styled,
    whole_numbers,
)
from ..pictures import finish, model_label
from ..results import Comparison


def draw_comparison(result: Comparison, folder: Path) -> None:
    """Draw a comparison's three pictures into `folder`."""
    labels = run_labels(result)
    with styled():
        _by_examples(result, labels, folder / "error_by_examples.png")
        _by_loop(result, labels, folder / "error_by_loop.png")
        _differences(result, labels, folder / "difference_by_examples.png")


def run_labels(result: Comparison) -> dict[str, str]:
    """A short label for each run: model, loops and seed, and the end of its name if these are not
    unique."""
    labels = {
        name: f"{model_label(entry['family'], entry['loops'])}, seed {entry['seed']}"
        for name, entry in result["runs"].items()
    }
    all_labels = list(labels.values())
    return {
        name: label if all_labels.count(label) == 1 else f"{label} ({name.rpartition('-')[2]})"
        for name, label in labels.items()
    }


def _by_examples(result: Comparison, labels: Mapping[str, str], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    run_curves = {run: entry["by_examples"] for run, entry in result["runs"].items()}
    for index, (run, curve) in enumerate(run_curves.items()):
        band(axes, result["k"], curve, labels[run], line(index))
    for index, (name, curve) in enumerate(result["baselines"].items(), start=len(run_curves)):
        band(axes, result["k"], curve, result["labels"][name], line(index, dashed=True))
    error_axis(axes, result["error"], list(run_curves.values()), list(result["baselines"].values()))
    _finish(figure, result, path, run_curves | result["baselines"])


def _differences(result: Comparison, labels: Mapping[str, str], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    first, *other_runs = result["runs"]
    curves = {run: result["runs"][run]["minus_first"]["by_examples"] for run in other_runs}
    for index, (run, curve) in enumerate(curves.items(), start=1):
        band(axes, result["k"], curve, labels[run], line(index))
    note_level(axes, 0, labels[first])
    axes.set_ylabel(f"{result['error']}, less the first run's")
    _finish(figure, result, path, curves)


def _finish(figure: Figure, result: Comparison, path: Path, curves: Mapping[str, AnyCurve]) -> None:
    (axes,) = figure.axes
    axes.set_xlabel("in-context examples k")
    whole_numbers(axes)
    finish(figure, result, path, "k", result["k"], curves)


def _by_loop(result: Comparison, labels: Mapping[str, str], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    curves = {run: entry["by_loop"] for run, entry in result["runs"].items()}
    max_loops = max(len(curve["mean"]) for curve in curves.values())
    loops = list(range(1, max_loops + 1))
    columns = {run: padded(curve, max_loops) for run, curve in curves.items()}
    for index, (run, curve) in enumerate(columns.items()):
        band(axes, loops, curve, labels[run], line(index))
    for b in sorted({entry["b"] for entry in result["runs"].values()}):
        mark_loops(axes, b)
    axes.set_xlabel("loop (layer, for standard models)")
    axes.set_ylabel(f"{result['error']} at k = {result['k'][-1]}")
    error_scale(axes, result["error"])
    whole_numbers(axes)
    finish(figure, result, path, "loop", loops, columns)
