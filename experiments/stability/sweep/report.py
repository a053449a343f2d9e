"""A sweep over learning rates as a table with its verdict in words, and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reloop.evaluation.figures import (
    band,
    legend_beside,
    line,
    log_of_few_decades,
    note_level,
    save,
    styled,
)

from ..tables import LABELS, mean_and_range, table, ticks_at
from .verdict import least_move

PLATEAU = 0.9  # of the initial error; above it a model has hardly learned


def report(result: Mapping[str, Any]) -> str:
    """Mean errors by rate, the best marked; then the verdicts."""
    lines = [
        f"linear regression in context, {result['what']}: error after {result['steps']:,} steps, "
        f"mean of {len(result['seeds'])} seeds",
        f"(expected of predicting zero {result['zero']:g}, of the best predictor "
        f"{result['bayes']:.3f}; runs that collapsed are left out,",
        "their number in brackets; * the best rate, ^ the same where it or a seed's own is an "
        "outermost one)",
        "",
    ]
    head = ["", *(f"{rate:.3g}" for rate in result["rates"])]
    rows = []
    for scaling, by_loops in result["scalings"].items():
        for R, cell in by_loops.items():
            best = result["best"][scaling][R]
            cells = [_cell(row) + _mark(best, i) for i, row in enumerate(cell["errors"])]
            rows.append([f"{scaling}, R = {R}", *cells])
    return "\n".join([*lines, *table(head, rows), "", *verdict(result)])


def verdict(result: Mapping[str, Any]) -> list[str]:
    """The verdicts of the sweep, one sentence each."""
    few, many = result["loops"][0], result["loops"][-1]
    lines = [
        f"{scaling}: from R = {few} to {many} the best rate {_movement(entry)}"
        for scaling, entry in result["move"].items()
    ]
    before, after = result["scalings"]
    lines += [
        f"R = {R}: {after} over {before}, each at its best rate: {_gain(entry)}"
        + _edge_note(result["best"], R)
        for R, entry in result["gain"].items()
    ]
    high = PLATEAU * result["initial"]
    on_plateau = [
        f"{scaling} R = {R}"
        for scaling, by_loops in result["best"].items()
        for R, best in by_loops.items()
        if best is not None and best["error"] > high
    ]
    if on_plateau:
        lines.append(
            f"still above {high:.2f} at the best rate, so that it means little: "
            + ", ".join(on_plateau)
        )
    collapse_count = sum(
        bool(reason)
        for by_loops in result["scalings"].values()
        for entry in by_loops.values()
        for row in entry["collapsed"]
        for reason in row
    )
    least = least_move(np.array(result["rates"]))
    return [
        *lines,
        f"runs that collapsed: {collapse_count}",
        "± is the 95 % interval over seeds; a gain or a loss is one whose interval excludes 0, a "
        "movement one",
        f"that also has a mean of at least {least:.2f} octaves, half the least step between rates",
    ]


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Error by rate, a panel for each scaling, a curve for each R with the least and the most of
    its seeds, a star at the best rate."""
    path, columns, rates = folder / f"{name}.png", {}, result["rates"]
    with styled():
        figure = Figure(figsize=(10.0, 4.0))
        panels = figure.subplots(1, len(result["scalings"]), sharey=True)
        for axes, (scaling, by_loops) in zip(panels, result["scalings"].items(), strict=True):
            for index, (R, cell) in enumerate(by_loops.items()):
                collapse_counts = [row.count(None) for row in cell["errors"]]
                curve = mean_and_range(cell["errors"]) | {"collapsed": collapse_counts}
                columns[f"{scaling}_R{R}"] = curve
                band(axes, rates, curve, f"R = {R}", line(index))
                if (best := result["best"][scaling][R]) is not None:
                    star = {"color": line(index)["color"], "markersize": 13, "zorder": 3}
                    axes.plot(best["rate"], best["error"], "*", **star)
            _format_axes(axes, result, scaling, by_loops)
        panels[0].set_ylabel("error / error of predicting zero")
        legend_beside(panels[-1])
        figure.suptitle(
            f"linear regression in context, {result['what']}, {result['steps']:,} steps"
        )
        save(figure, path, "rate", rates, columns)
    return [path]


def _format_axes(
    axes: Axes, result: Mapping[str, Any], scaling: str, by_loops: Mapping[str, Any]
) -> None:
    ticks_at(axes, result["rates"])
    log_of_few_decades(axes)
    axes.set_xlabel("learning rate")
    note_level(axes, result["zero"], "predicting zero, expected")
    note_level(axes, result["bayes"], "least possible, expected")
    errors = [error for cell in by_loops.values() for row in cell["errors"] for error in row]
    collapse_count = sum(error is None for error in errors)
    axes.set_title(
        f"{LABELS[scaling]}; {collapse_count} of {len(errors)} runs collapsed", fontsize=10
    )


def _cell(row: Sequence[float | None]) -> str:
    errors = [error for error in row if error is not None]
    mean = f"{np.mean(errors):.3f}" if errors else "-"
    return mean if len(errors) == len(row) else f"{mean} ({len(row) - len(errors)})"


def _mark(best: Mapping[str, Any] | None, place: int) -> str:
    if best is None or place != best["place"]:
        return " "
    return "^" if best["edge"] else "*"


def _movement(entry: Mapping[str, Any]) -> str:
    if entry["verdict"] == "unknown":
        estimate = f" (measured: {_octaves(entry)})" if "mean" in entry else ""
        return f"is not known to move or to stay: {entry['reason']}{estimate}"
    phrases = {"up": "moves up", "down": "moves down", "no movement": "shows no movement"}
    note = ", or more: a best rate is the outermost that was tried" if entry["at_least"] else ""
    return f"{phrases[entry['verdict']]}: {_octaves(entry)}{note}"


def _octaves(entry: Mapping[str, Any]) -> str:
    return f"{entry['mean']:+.2f} ± {entry['half']:.2f} octaves"


def _gain(entry: Mapping[str, Any]) -> str:
    if entry["verdict"] == "unknown":
        return f"unknown: {entry['reason']}"
    return f"{entry['verdict']} ({entry['mean']:+.3f} ± {entry['half']:.3f})"


def _edge_note(best: Mapping[str, Any], R: str) -> str:
    """The scalings whose best rate is the outermost one tried."""
    scalings = [
        scaling
        for scaling, by_loops in best.items()
        if by_loops[R] is not None and by_loops[R]["edge"]
    ]
    return f"; the outermost rate tried is best for {' and '.join(scalings)}" if scalings else ""
