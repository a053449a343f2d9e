"""The project's figures, in one style; each a PNG with the CSV behind it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .baselines import LABELS

# Okabe and Ito's colours, which the colour-blind can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLE: dict[Any, Any] = {
    "figure.figsize": (6.4, 4.0),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
}


def draw_figures(result: Mapping[str, Any], folder: Path) -> None:
    """Draw an evaluation's two pictures into `folder`: error_by_examples and error_by_loop."""
    folder.mkdir(exist_ok=True)
    with rc_context(_STYLE):
        _by_examples(result, folder / "error_by_examples.png")
        _by_loop(result, folder / "error_by_loop.png")


def model_label(result: Mapping[str, Any], loops: int) -> str:
    """'looped, 12 loops', or 'standard, 12 layers'."""
    unit = "layers" if result["family"] == "standard" else "loops"
    return f"{result['family']}, {loops} {unit}"


def curves(result: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Sequence[float]]]]:
    """The curves by number of examples in the order they are shown: name to label and values.

    The model stands once where it is read at b loops anyway.
    """
    by_examples = result["by_examples"]
    shown = {"model_at_b": (model_label(result, result["b"]), by_examples["model_at_b"])}
    if result["loops"] != result["b"]:
        shown["model"] = (model_label(result, result["loops"]), by_examples["model"])
    rest = [name for name in by_examples if name not in ("k", "model", "model_at_b")]
    return shown | {name: (LABELS.get(name, name), by_examples[name]) for name in rest}


def _by_examples(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    k, shown = result["by_examples"]["k"], curves(result)
    for colour, (name, (label, curve)) in zip(_COLOURS, shown.items(), strict=False):
        style = "-" if name.startswith("model") else "--"
        _band(axes, k, curve, label, colour, style)
    axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.annotate(
        "predicting zero",
        (k[-1], 1),
        (0, 3),
        textcoords="offset points",
        ha="right",
        color="grey",
        fontsize=8,
    )
    axes.set_xlabel("in-context examples k")
    axes.set_ylabel(result["error"])
    _log_above_rounding(axes, [curve for _, curve in shown.values()])
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title(_title(result))
    figure.savefig(path)
    _write_csv(
        path.with_suffix(".csv"), "k", k, {name: curve for name, (_, curve) in shown.items()}
    )


def _by_loop(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    loops, curve = result["by_loop"]["loop"], result["by_loop"]["model"]
    _band(axes, loops, curve, model_label(result, loops[-1]), _COLOURS[0], "-")
    unit = "layer" if result["family"] == "standard" else "loop"
    axes.axvline(result["b"], color="black", linestyle="--", linewidth=1)
    axes.annotate(
        f"b = {result['b']}",
        (result["b"], 1),
        (4, -4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        fontsize=9,
    )
    axes.set_xlabel(unit)
    axes.set_ylabel(f"{result['error']} at k = {result['by_examples']['k'][-1]}")
    axes.set_yscale("log")
    axes.set_title(_title(result))
    figure.savefig(path)
    _write_csv(path.with_suffix(".csv"), unit, loops, {"model": curve})


def _band(
    axes: Axes,
    x: Sequence[int],
    curve: Mapping[str, Sequence[float]],
    label: str,
    colour: str,
    style: str,
) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.plot(x, curve["mean"], style, color=colour, label=label, linewidth=1.6)
    axes.fill_between(x, curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)


def _log_above_rounding(axes: Axes, shown: Sequence[Mapping[str, Sequence[float]]]) -> None:
    """Log scale down to a decade under the model's least error: exact solvers fall to rounding,
    which would squeeze everything else."""
    axes.set_yscale("log")
    least = min(value for value in shown[0]["mean"] if value > 0)
    most = max(max(curve["high"]) for curve in shown)
    axes.set_ylim(min(least, 0.1) / 10, most * 1.5)


def _title(result: Mapping[str, Any]) -> str:
    task = result["task"].replace("_", " ")
    return f"{task}, d = {result['dims']}, {result['prompts']} prompts, 90 % bands"


def _write_csv(
    path: Path, axis: str, x: Sequence[int], shown: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    parts = ("mean", "low", "high")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([axis, *(f"{name}_{part}" for name in shown for part in parts)])
        columns = [curve[part] for curve in shown.values() for part in parts]
        writer.writerows(zip(x, *columns, strict=True))
