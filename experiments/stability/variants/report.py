"""The variants of loops as a table, and their errors by loops as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reloop.evaluation.figures import band, legend_beside, line, note_level, save, styled

from ..tables import mean_and_range, table, ticks_at


def report(result: Mapping[str, Any]) -> str:
    """A row for each variant and number of loops, the mean of its seeds with the least and most."""
    lines = [
        f"linear regression in context, two layers, rate {result['rate']:g}, {result['steps']:,} "
        f"steps, {len(result['seeds'])} seeds; one loop: error {_range(result['plain'])}",
        f"(the plateau ends where the smoothed loss falls below {result['left_below']:g} of the "
        "initial error)",
        "",
    ]
    head = ["", "K", "error", "of the initial", "plateau left at step", "collapsed"]
    rows = []
    for name, by_loops in result["variants"].items():
        for K, cell in by_loops.items():
            pairs = zip(cell["error"], cell["initial"], strict=True)
            ratios = [
                None if error is None else error / initial_error for error, initial_error in pairs
            ]
            rows.append(
                [
                    name, K, _range(cell["error"]), _range(ratios),
                    ", ".join("never" if step is None else f"{step}" for step in cell["left"]),
                    _reasons(cell["collapse"]),
                ]
            )  # fmt: skip
    lines += table(head, rows)
    if result["learned"]:
        texts = (
            f"{name} {'yes' if learned else 'NO'}" for name, learned in result["learned"].items()
        )
        lines += [
            "",
            f"below {result['left_below']:g} of the initial error at K = {result['asked_loops']}, "
            f"every seed: {', '.join(texts)}",
        ]
    return "\n".join(lines)


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Error by loops, a curve for each variant with the least and most of its seeds."""
    path, loops, columns = folder / f"{name}.png", result["loops"], {}
    with styled():
        figure = Figure()
        axes = figure.subplots()
        for index, (variant, by_loops) in enumerate(result["variants"].items()):
            curve = _curve([by_loops[str(K)] for K in loops])
            columns[variant] = curve
            band(axes, loops, curve, variant, line(index))
        errors = [error for error in result["plain"] if error is not None]
        if errors:
            note_level(axes, float(np.mean(errors)), "one loop")
        ticks_at(axes, loops)
        axes.set_xlabel("loops K")
        axes.set_ylabel("error / error of predicting zero")
        axes.set_title(f"linear regression in context, {result['steps']:,} steps")
        legend_beside(axes)
        save(figure, path, "loops", loops, columns)
    return [path]


def _curve(cells: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Mean, least and most error of each cell's seeds, the mean step that leaves the plateau (of
    those that do), and the numbers that never do and that collapse."""
    return mean_and_range([cell["error"] for cell in cells]) | {
        "left_at": mean_and_range([cell["left"] for cell in cells])["mean"],
        "never_left": [cell["left"].count(None) for cell in cells],
        "collapsed": [sum(map(bool, cell["collapse"])) for cell in cells],
    }


def _range(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    if len(numbers) == 1:
        return f"{numbers[0]:.3f}"
    return f"{np.mean(numbers):.3f} ({min(numbers):.3f} to {max(numbers):.3f})"


def _reasons(reasons: Sequence[str]) -> str:
    """The number of runs for each reason, or none."""
    kinds = sorted({reason for reason in reasons if reason})
    return ", ".join(f"{reasons.count(kind)} ({kind})" for kind in kinds) or "none"
