"""The toy model's numbers as a table beside those expected, and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reloop.evaluation.figures import band, legend_beside, line, save, styled

from ..tables import LABELS, band_of, csv_columns, number, table, ticks_at

# ‖h_R‖/√d of ten other seeds, by loops. If norms explode, means of ten seeds differ by half.
_BY_LOOPS = (1, 2, 4, 8, 16, 32, 64)
EXPECTED = {
    "deep none": (1.21, 1.48, 2.19, 4.84, 24.7, 605, 3.7e5),
    "deep sqrt": (1.21, 1.24, 1.26, 1.26, 1.27, 1.27, 1.26),
    "deep linear": (1.21, 1.12, 1.06, 1.03, 1.02, 1.01, 1.00),
    "looped none": (1.21, 1.78, 4.51, 34.8, 2.5e3, 1.4e7, 5.9e14),
    "looped sqrt": (1.21, 1.42, 1.88, 2.97, 6.14, 18.4, 92),
    "looped linear": (1.21, 1.22, 1.23, 1.24, 1.24, 1.24, 1.24),
}
_HIGHEST = 1e3  # of the figure: exploding norms leave it


def report(result: Mapping[str, Any]) -> str:
    """The norms with standard errors and their expected values, and the other measurements."""
    head = ["R", *map(str, result["loops"])]
    lines = [
        f"h ← h + ε W relu(h), d = {result['width']}, {result['seeds']} seeds, ± standard error",
        "",
        "‖h_R‖/√d, of stacks that share W (looped) and that do not (deep)",
        *table(head, _norms(result)),
        "",
        "change of the output by one update of random signs, over its rate η",
        *table(head, _rows(result["change"])),
        "",
        "‖h_R‖/√d of looped stacks of U layers, ε = 1/(R√U)",
        *table(head, _rows({f"U = {u}": curve for u, curve in result["layers"].items()})),
        "",
        f"mean cosine of two different increments, R = {result['angles_at']}",
    ]
    for name, curve in result["cosine"].items():
        lines.append(f"  {name}: {curve['mean']:.3f} ± {curve['standard_error']:.3f}")
    return "\n".join(lines)


def _norms(result: Mapping[str, Any]) -> list[list[str]]:
    loops, rows = result["loops"], list[list[str]]()
    for name, expected in EXPECTED.items():
        rows += _rows({name: result["norm"][name]})
        expected_by_loops = dict(zip(_BY_LOOPS, expected, strict=True))
        rows.append(
            [
                "  expected",
                *(number(expected_by_loops[r]) if r in expected_by_loops else "" for r in loops),
            ]
        )
        if name == "deep none":
            root = result["norm"][name]["root_mean_square"]
            rows.append(["  root mean square", *map(number, root)])
            rows.append(["  its expectation (3/2)^(R/2)", *(number(1.5 ** (r / 2)) for r in loops)])
    return rows


def _rows(curves: Mapping[str, Any]) -> list[list[str]]:
    """For each curve a row of means and one of their standard errors."""
    rows = []
    for name, curve in curves.items():
        rows.append([name, *map(number, curve["mean"])])
        rows.append(["", *(f"±{value:.2g}" for value in curve["standard_error"])])
    return rows


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Norms and changes by loops, on log scales."""
    path, loops = folder / f"{name}.png", result["loops"]
    curves = {f"norm_{key}": curve for key, curve in result["norm"].items()}
    curves |= {f"change_{key}": curve for key, curve in result["change"].items()}
    with styled():
        figure = Figure(figsize=(11.0, 4.0))
        left, right = figure.subplots(1, 2)
        for index, (scaling, label) in enumerate(LABELS.items()):
            for kind, dashed in (("looped", False), ("deep", True)):
                curve = curves[f"norm_{kind} {scaling}"]
                _line(left, loops, curve, f"{kind}, {label}", line(index, dashed))
            _line(right, loops, curves[f"change_looped {scaling}"], label, line(index))
        for axes, what in ((left, "‖h_R‖ / √d"), (right, "change of the output by one update / η")):
            axes.set_ylim(0.5, min(axes.get_ylim()[1], _HIGHEST))
            axes.set_ylabel(what)
        legend_beside(left)
        figure.suptitle(
            f"h ← h + ε W relu(h), d = {result['width']}, mean of {result['seeds']} seeds "
            "± standard error"
        )
        save(
            figure,
            path,
            "loops",
            loops,
            {k.replace(" ", "_"): csv_columns(c) for k, c in curves.items()},
        )
    return [path]


def _line(
    axes: Axes, loops: Sequence[int], curve: Mapping[str, Any], label: str, style: Mapping[str, Any]
) -> None:
    band(axes, loops, band_of(curve), label, style)
    ticks_at(axes, loops)
    axes.set_xlabel("loops R")
    axes.set_yscale("log")
