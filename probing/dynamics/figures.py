"""The pictures of a run's dynamics: norms, changes, angles between increments, effective rank, and
for a loop that repeats itself how far its states are from a fixed point."""

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
    """The pictures' files."""
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
        # Its norm stands at the read-out: its two states are one.
        labels = {"stream": "what the next layer reads"}
    figure = Figure()
    axes = figure.subplots()
    shown = _bands(axes, result["norm"], labels)
    log_of_few_decades(axes)
    _finish(axes, result, "norm of a token's state", ", 90 % bands")
    save(figure, path, _unit(result), result["norm"]["loop"], shown)


def _change(result: Mapping[str, Any], path: Path) -> None:
    labels = {"absolute": "‖Yₜ − Yₜ₋₁‖", "relative": "‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖"}
    figure = Figure()
    axes = figure.subplots()
    shown = _bands(axes, result["change"], labels)
    _finish(axes, result, f"change over a {_unit(result)}", ", 90 % bands")
    save(figure, path, _unit(result), result["change"]["loop"], shown)


def _residual(result: Mapping[str, Any], path: Path) -> None:
    """Means, and how the ratio spreads over prompts: where some prompts come to rest and others do
    not, the mean is that of the others."""
    labels = {"absolute": "‖M(Yₜ) − Yₜ‖", "relative": "‖M(Yₜ) − Yₜ‖ / ‖Yₜ‖"}
    part, style = result["residual"], line(2, dashed=True)  # it may cover the mean's
    figure = Figure()
    axes = figure.subplots()
    shown = _bands(axes, part, labels)
    over = shown["relative"] = {**shown["relative"], **part["over_prompts"]}
    curve = {
        "mean": over["median"],
        "low": over["percentile_5"],
        "high": over["percentile_95"],
    }
    band(axes, part["loop"], curve, "the same, median prompt\n(band: 5 to 95 % of prompts)", style)
    legend_beside(axes)
    _finish(axes, result, "fixed-point residual", ", 90 % bands of means")
    save(figure, path, _unit(result), part["loop"], shown)


def _bands(axes: Axes, part: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Curve]:
    """A part's curves of these names over all loops, on a log scale."""
    shown: dict[str, Curve] = {name: part[name] for name in labels}
    for index, (name, label) in enumerate(labels.items()):
        band(axes, part["loop"], shown[name], label, line(index))
    axes.set_yscale("log")
    axes.margins(y=0.12)  # the name of b stands above the curves
    if len(shown) > 1:
        legend_beside(axes)
    return shown


def _cosines(result: Mapping[str, Any], path: Path) -> None:
    """The matrix as a picture."""
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.subplots()
    part = result["cosines"]
    loops, matrix = part["loop"], np.array(part["mean"], dtype=np.float64)
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    # From red to blue: the colour-blind tell the two apart, and both from white.
    image = axes.imshow(
        matrix, cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges)
    )
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
    grey = ", grey where converged" if np.isnan(matrix).any() else ""
    _finish(axes, result, f"increment of {_unit(result)}", grey)
    axes.set_xlabel(f"increment of {_unit(result)}")
    for text in axes.texts:  # b, on any colour
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
    most = max((value for value in part["value"] if value is not None), default=1.0)
    axes.set_ylim(0, 1.15 * most)  # the name of b stands above the curve
    axes.set_xlim(-0.5, part["loop"][-1] + 0.5)  # also where prompts do not differ any more
    alike = ", none where all are alike" if np.isnan(values).any() else ""
    _finish(axes, result, "effective rank of the states at x,\ncentred at each position", alike)
    shown: dict[str, Curve] = {"effective_rank": {"value": part["value"]}}
    save(figure, path, _unit(result), part["loop"], shown)


def _finish(axes: Axes, result: Mapping[str, Any], what: str, more: str) -> None:
    """What all pictures share: axes, b, and the title above them, with what `more` there is to
    say."""
    if result["family"] != "standard":
        mark_loops(axes, result["b"])
    axes.set_xlabel(_unit(result))
    axes.set_ylabel(what)
    whole_numbers(axes)
    assert isinstance(axes.figure, Figure)
    task = result["task"].replace("_", " ")
    axes.figure.suptitle(
        f"{task}, d = {result['dims']}, {result['family']}, {result['prompts']} prompts{more}"
        + remark_lines(result)
    )


def _unit(result: Mapping[str, Any]) -> str:
    return "layer" if result["family"] == "standard" else "loop"
