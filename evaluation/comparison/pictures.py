"""The pictures of a comparison: errors by examples, by loop, and minus the first run's."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from ..figures import (
    AnyCurve,
    Pictures,
    band,
    error_axis,
    error_scale,
    mark_loops,
    note_level,
    padded,
    whole_numbers,
)
from ..figures.evaluation import finish, model_label
from ..results import ComparedRun, Comparison, by_loop_name, examples_name
from ..style import LineStyle, styles_of


def draw_comparison(result: Comparison, pictures: Pictures) -> None:
    """Draw a comparison's three pictures."""
    labels = run_labels(result)
    _by_examples(result, labels, pictures)
    _by_loop(result, labels, pictures)
    _differences(result, labels, pictures)


def run_labels(result: Comparison) -> dict[str, str]:
    """A short label for each run: its kind of model, loops and seed, and the end of its name if
    these are not unique."""
    labels = {
        name: f"{model_label(_kind(entry), entry['loops'])}, seed {entry['seed']}"
        for name, entry in result["runs"].items()
    }
    all_labels = list(labels.values())
    return {
        name: label if all_labels.count(label) == 1 else f"{label} ({name.rpartition('-')[2]})"
        for name, label in labels.items()
    }


def _kind(entry: ComparedRun) -> str:
    """The kind of a run's curves; its family in a file that is older than the kinds."""
    return entry.get("style", entry["family"])


def _styles(result: Comparison) -> dict[str, LineStyle]:
    """The styles of runs and solvers, the same in all three pictures."""
    kinds = {run: _kind(entry) for run, entry in result["runs"].items()}
    kinds |= {name: name for name in result["baselines"]}
    return dict(zip(kinds, styles_of(list(kinds.values())), strict=True))


def _by_examples(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    run_curves = {run: entry["by_examples"] for run, entry in result["runs"].items()}
    for run, curve in run_curves.items():
        band(axes, result["k"], curve, labels[run], styles[run])
    for name, curve in result["baselines"].items():
        band(axes, result["k"], curve, result["labels"][name], styles[name])
    error_axis(axes, result["error"], list(run_curves.values()), list(result["baselines"].values()))
    _finish(figure, result, pictures, "error_by_examples", run_curves | result["baselines"])


def _differences(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    first, *other_runs = result["runs"]
    curves = {run: result["runs"][run]["minus_first"]["by_examples"] for run in other_runs}
    for run, curve in curves.items():
        band(axes, result["k"], curve, labels[run], styles[run])
    note_level(axes, 0, labels[first])
    axes.set_ylabel(f"{result['error']}, less the first run's")
    _finish(figure, result, pictures, "difference_by_examples", curves)


def _finish(
    figure: Figure,
    result: Comparison,
    pictures: Pictures,
    name: str,
    curves: Mapping[str, AnyCurve],
) -> None:
    (axes,) = figure.axes
    axes.set_xlabel(examples_name(result["error"]))
    whole_numbers(axes)
    finish(figure, result, pictures, name, "k", result["k"], curves)


def _by_loop(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    curves = {run: entry["by_loop"] for run, entry in result["runs"].items()}
    max_loops = max(len(curve["mean"]) for curve in curves.values())
    loops = list(range(1, max_loops + 1))
    columns = {run: padded(curve, max_loops) for run, curve in curves.items()}
    for run, curve in columns.items():
        band(axes, loops, curve, labels[run], styles[run])
    for b in sorted({entry["b"] for entry in result["runs"].values()}):
        mark_loops(axes, b)
    axes.set_xlabel("loop (layer, for standard models)")
    axes.set_ylabel(by_loop_name(result["error"], result["k"][-1]))
    error_scale(axes, result["error"])
    whole_numbers(axes)
    finish(figure, result, pictures, "error_by_loop", "loop", loops, columns)
