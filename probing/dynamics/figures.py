"""The pictures of a run's dynamics: norms, changes, cosines between increments, effective rank and,
if all loops are the same, the distance of the states from a fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reloop.evaluation.bootstrap import Band, numbers
from reloop.evaluation.figures import (
    band,
    legend_beside,
    line,
    log_of_few_decades,
    mark_loops,
    parts,
    remark_lines,
    save,
    styled,
    whole_numbers,
)
from reloop.evaluation.results import unit

from .results import Dynamics, Residual


def figure_names(result: Dynamics) -> list[str]:
    """The file names of the pictures."""
    names = ["norm", "change", "increment_cosines", "effective_rank"]
    return [f"{name}.png" for name in (*names, *(["residual"] if "residual" in result else []))]


def draw_dynamics(result: Dynamics, folder: Path) -> None:
    """Draw a result's pictures into `folder`."""
    with styled():
        _norm(result, folder / "norm.png")
        _change(result, folder / "change.png")
        _cosines(result, folder / "increment_cosines.png")
        _rank(result, folder / "effective_rank.png")
        if "residual" in result:
            _residual(result, result["residual"], folder / "residual.png")


def _norm(result: Dynamics, path: Path) -> None:
    norm = result["norm"]
    curves = {"raw": norm["raw"], "stream": norm["stream"]}
    labels = ["before the final norm", "what the next loop reads"]
    if result["family"] == "standard":
        # Its norm is at the read-out, so its two states are the same.
        curves, labels = {"stream": norm["stream"]}, ["what the next layer reads"]
    figure = Figure()
    axes = figure.subplots()
    _bands(axes, norm["loop"], curves, labels)
    log_of_few_decades(axes)
    _finish(axes, result, "norm of a token's state", ", 90 % bands")
    save(figure, path, unit(result["family"]), norm["loop"], curves)


def _change(result: Dynamics, path: Path) -> None:
    change, axis = result["change"], unit(result["family"])
    curves = {"absolute": change["absolute"], "relative": change["relative"]}
    figure = Figure()
    axes = figure.subplots()
    _bands(axes, change["loop"], curves, ["‖Yₜ − Yₜ₋₁‖", "‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖"])
    _finish(axes, result, f"change over a {axis}", ", 90 % bands")
    save(figure, path, axis, change["loop"], curves)


def _residual(result: Dynamics, residual: Residual, path: Path) -> None:
    """Means, and the spread of the ratio over prompts: if some prompts converge and others do not,
    the others dominate the mean."""
    loop, spread = residual["loop"], residual["over_prompts"]
    curves = {"absolute": residual["absolute"], "relative": residual["relative"]}
    figure = Figure()
    axes = figure.subplots()
    _bands(axes, loop, curves, ["‖M(Yₜ) − Yₜ‖", "‖M(Yₜ) − Yₜ‖ / ‖Yₜ‖"])
    median: Band = {
        "mean": spread["median"],
        "low": spread["percentile_5"],
        "high": spread["percentile_95"],
    }
    label = "the same, median prompt\n(band: 5 to 95 % of prompts)"
    band(axes, loop, median, label, line(2, dashed=True))  # it may cover the mean's line
    legend_beside(axes)
    _finish(axes, result, "fixed-point residual", ", 90 % bands of means")
    columns = {
        **parts(curves["relative"]),
        **{part: spread[part] for part in ("median", "percentile_5", "percentile_95")},
    }
    save(figure, path, unit(result["family"]), loop, {**curves, "relative": columns})


def _bands(
    axes: Axes, loop: Sequence[int], curves: Mapping[str, Band], labels: Sequence[str]
) -> None:
    """Curves over all loops, on a log scale."""
    for index, (curve, label) in enumerate(zip(curves.values(), labels, strict=True)):
        band(axes, loop, curve, label, line(index))
    axes.set_yscale("log")
    axes.margins(y=0.12)  # room for the label of b
    if len(curves) > 1:
        legend_beside(axes)


def _cosines(result: Dynamics, path: Path) -> None:
    """The matrix as a picture."""
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.subplots()
    part = result["cosines"]
    loops, matrix = part["loop"], np.array([numbers(row) for row in part["mean"]])
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    # Red to blue: readable for the colour-blind.
    image = axes.imshow(
        matrix, cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges)
    )
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
    note = ", grey where converged" if np.isnan(matrix).any() else ""
    _finish(axes, result, f"increment of {unit(result['family'])}", note)
    axes.set_xlabel(f"increment of {unit(result['family'])}")
    for text in axes.texts:  # the label of b
        text.set_bbox({"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1})
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    columns = {str(loop): column for loop, column in zip(loops, part["mean"], strict=True)}
    save(figure, path, unit(result["family"]), loops, {"cosine": columns})


def _rank(result: Dynamics, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    part = result["effective_rank"]
    values = numbers(part["value"])
    axes.plot(part["loop"], values, ".-", linewidth=1.6, color=line(0)["color"])
    largest = max((value for value in part["value"] if value is not None), default=1.0)
    axes.set_ylim(0, 1.15 * largest)  # room for the label of b
    axes.set_xlim(-0.5, part["loop"][-1] + 0.5)  # also loops where the rank is nan
    note = ", none where all are alike" if np.isnan(values).any() else ""
    _finish(axes, result, "effective rank of the states at x,\ncentred at each position", note)
    curves = {"effective_rank": {"value": part["value"]}}
    save(figure, path, unit(result["family"]), part["loop"], curves)


def _finish(axes: Axes, result: Dynamics, label: str, note: str) -> None:
    """The parts that all pictures share: axis labels, b, and the title, which ends with `note`."""
    if result["family"] != "standard":
        mark_loops(axes, result["b"])
    axes.set_xlabel(unit(result["family"]))
    axes.set_ylabel(label)
    whole_numbers(axes)
    assert isinstance(axes.figure, Figure)
    task = result["task"].replace("_", " ")
    axes.figure.suptitle(
        f"{task}, d = {result['dims']}, {result['family']}, {result['prompts']} prompts{note}"
        + remark_lines(result)
    )
