"""The pictures of a run's dynamics: norms, changes, cosines between increments, effective rank and,
if all loops are the same, the distance of the states from a fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reloop.evaluation.figures import (
    Curve,
    band,
    legend_beside,
    line,
    log_of_few_decades,
    mark_loops,
    remark_lines,
    save,
    styled,
    whole_numbers,
)


def figure_names(result: Mapping[str, Any]) -> list[str]:
    """The file names of the pictures."""
    names = ["norm", "change", "increment_cosines", "effective_rank"]
    return [f"{name}.png" for name in (*names, *(["residual"] if "residual" in result else []))]


def draw_dynamics(result: Mapping[str, Any], folder: Path) -> None:
    """Draw a result's pictures into `folder`."""
    with styled():
        _norm(result, folder / "norm.png")
        _change(result, folder / "change.png")
        _cosines(result, folder / "increment_cosines.png")
        _rank(result, folder / "effective_rank.png")
        if "residual" in result:
            _residual(result, folder / "residual.png")


def _norm(result: Mapping[str, Any], path: Path) -> None:
    labels = {"raw": "before the final norm", "stream": "what the next loop reads"}
    if result["family"] == "standard":
        # Its norm is at the read-out, so its two states are the same.
        labels = {"stream": "what the next layer reads"}
    figure = Figure()
    axes = figure.subplots()
    curves = _bands(axes, result["norm"], labels)
    log_of_few_decades(axes)
    _finish(axes, result, "norm of a token's state", ", 90 % bands")
    save(figure, path, _unit(result), result["norm"]["loop"], curves)


def _change(result: Mapping[str, Any], path: Path) -> None:
    labels = {"absolute": "‖Yₜ − Yₜ₋₁‖", "relative": "‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖"}
    figure = Figure()
    axes = figure.subplots()
    curves = _bands(axes, result["change"], labels)
    _finish(axes, result, f"change over a {_unit(result)}", ", 90 % bands")
    save(figure, path, _unit(result), result["change"]["loop"], curves)


def _residual(result: Mapping[str, Any], path: Path) -> None:
    """Means, and the spread of the ratio over prompts: if some prompts converge and others do not,
    the others dominate the mean."""
    labels = {"absolute": "‖M(Yₜ) − Yₜ‖", "relative": "‖M(Yₜ) − Yₜ‖ / ‖Yₜ‖"}
    part, style = result["residual"], line(2, dashed=True)  # it may cover the mean's line
    figure = Figure()
    axes = figure.subplots()
    curves = _bands(axes, part, labels)
    spread = curves["relative"] = {**curves["relative"], **part["over_prompts"]}
    curve = {
        "mean": spread["median"],
        "low": spread["percentile_5"],
        "high": spread["percentile_95"],
    }
    band(axes, part["loop"], curve, "the same, median prompt\n(band: 5 to 95 % of prompts)", style)
    legend_beside(axes)
    _finish(axes, result, "fixed-point residual", ", 90 % bands of means")
    save(figure, path, _unit(result), part["loop"], curves)


def _bands(axes: Axes, part: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Curve]:
    """A part's curves of these names over all loops, on a log scale."""
    curves: dict[str, Curve] = {name: part[name] for name in labels}
    for index, (name, label) in enumerate(labels.items()):
        band(axes, part["loop"], curves[name], label, line(index))
    axes.set_yscale("log")
    axes.margins(y=0.12)  # room for the label of b
    if len(curves) > 1:
        legend_beside(axes)
    return curves


def _cosines(result: Mapping[str, Any], path: Path) -> None:
    """The matrix as a picture."""
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.subplots()
    part = result["cosines"]
    loops, matrix = part["loop"], np.array(part["mean"], dtype=np.float64)
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    # Red to blue: readable for the colour-blind.
    image = axes.imshow(
        matrix, cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges)
    )
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
    note = ", grey where converged" if np.isnan(matrix).any() else ""
    _finish(axes, result, f"increment of {_unit(result)}", note)
    axes.set_xlabel(f"increment of {_unit(result)}")
    for text in axes.texts:  # the label of b
        text.set_bbox({"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1})
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    columns = {str(loop): column for loop, column in zip(loops, part["mean"], strict=True)}
    save(figure, path, _unit(result), loops, {"cosine": columns})


def _rank(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    part = result["effective_rank"]
    values = np.array(part["value"], dtype=np.float64)
    axes.plot(part["loop"], values, ".-", linewidth=1.6, color=line(0)["color"])
    largest = max((value for value in part["value"] if value is not None), default=1.0)
    axes.set_ylim(0, 1.15 * largest)  # room for the label of b
    axes.set_xlim(-0.5, part["loop"][-1] + 0.5)  # also loops where the rank is nan
    note = ", none where all are alike" if np.isnan(values).any() else ""
    _finish(axes, result, "effective rank of the states at x,\ncentred at each position", note)
    curves: dict[str, Curve] = {"effective_rank": {"value": part["value"]}}
    save(figure, path, _unit(result), part["loop"], curves)


def _finish(axes: Axes, result: Mapping[str, Any], label: str, note: str) -> None:
    """The parts that all pictures share: axis labels, b, and the title, which ends with `note`."""
    if result["family"] != "standard":
        mark_loops(axes, result["b"])
    axes.set_xlabel(_unit(result))
    axes.set_ylabel(label)
    whole_numbers(axes)
    assert isinstance(axes.figure, Figure)
    task = result["task"].replace("_", " ")
    axes.figure.suptitle(
        f"{task}, d = {result['dims']}, {result['family']}, {result['prompts']} prompts{note}"
        + remark_lines(result)
    )


def _unit(result: Mapping[str, Any]) -> str:
    return "layer" if result["family"] == "standard" else "loop"
