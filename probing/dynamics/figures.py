"""The pictures of a run's dynamics: norms, changes, cosines between increments, effective rank and,
if all loops are the same, the distance of the states from a fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reloop.conf.schema import FigureSettings
from reloop.evaluation.bootstrap import Band, numbers
from reloop.evaluation.figures import (
    AnyCurve,
    Pictures,
    band,
    heat_map,
    mark_loops,
    name_curves,
    parts,
    whole_numbers,
)
from reloop.evaluation.results import unit
from reloop.evaluation.style import style_of, styles_of

from .results import Dynamics, Residual


def draw_dynamics(
    result: Dynamics, folder: Path, settings: FigureSettings | None = None
) -> list[Path]:
    """Draw a result's pictures into `folder`; returns the files."""
    with Pictures(folder, settings) as pictures:
        _norm(result, pictures)
        _change(result, pictures)
        _cosines(result, pictures)
        _rank(result, pictures)
        if "residual" in result:
            _residual(result, result["residual"], pictures)
    return pictures.files


def _norm(result: Dynamics, pictures: Pictures) -> None:
    norm = result["norm"]
    curves = {"raw": norm["raw"], "stream": norm["stream"]}
    labels = ["before the final norm", "what the next loop reads"]
    if result["family"] == "standard":
        # Its norm is at the read-out, so its two states are the same.
        curves, labels = {"stream": norm["stream"]}, ["what the next layer reads"]
    figure = pictures.figure()
    axes = figure.subplots()
    _bands(axes, result, norm["loop"], curves, labels)
    _finish(figure, result, "norm of a token's state", ", 90 % bands", pictures)
    pictures.save(figure, "norm", unit(result["family"]), norm["loop"], curves)


def _change(result: Dynamics, pictures: Pictures) -> None:
    change, axis = result["change"], unit(result["family"])
    curves = {"absolute": change["absolute"], "relative": change["relative"]}
    figure = pictures.figure()
    axes = figure.subplots()
    _bands(axes, result, change["loop"], curves, ["‖Yₜ − Yₜ₋₁‖", "‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖"])
    _finish(figure, result, f"change over a {axis}", ", 90 % bands", pictures)
    pictures.save(figure, "change", axis, change["loop"], curves)


def _residual(result: Dynamics, residual: Residual, pictures: Pictures) -> None:
    """Means, and the spread of the ratio over prompts: if some prompts converge and others do not,
    the others dominate the mean."""
    loop, spread = residual["loop"], residual["over_prompts"]
    curves = {"absolute": residual["absolute"], "relative": residual["relative"]}
    figure = pictures.figure()
    axes = figure.subplots()
    _bands(axes, result, loop, curves, ["‖M(Yₜ) − Yₜ‖", "‖M(Yₜ) − Yₜ‖ / ‖Yₜ‖"])
    median: Band = {
        "mean": spread["median"],
        "low": spread["percentile_5"],
        "high": spread["percentile_95"],
    }
    label = "the same, median prompt\n(band: 5 to 95 % of prompts)"
    band(axes, loop, median, label, style_of("median"))  # it may cover the mean's line
    _finish(figure, result, "fixed-point residual", ", 90 % bands of means", pictures)
    columns = {
        **parts(curves["relative"]),
        **{part: spread[part] for part in ("median", "percentile_5", "percentile_95")},
    }
    columns_by_curve: dict[str, AnyCurve] = {**curves, "relative": columns}
    pictures.save(figure, "residual", unit(result["family"]), loop, columns_by_curve)


def _bands(
    axes: Axes,
    result: Dynamics,
    loop: Sequence[int],
    curves: Mapping[str, Band],
    labels: Sequence[str],
) -> None:
    """Curves over all loops, on a log scale."""
    styles = styles_of([result.get("style", result["family"])] * len(curves))
    for curve, label, style in zip(curves.values(), labels, styles, strict=True):
        band(axes, loop, curve, label, style)
    axes.set_yscale("log")
    axes.margins(y=0.12)  # room for the label of b


def _cosines(result: Dynamics, pictures: Pictures) -> None:
    """The matrix as a picture."""
    figure = pictures.figure(5.6, 4.8)
    axes = figure.subplots()
    part = result["cosines"]
    loops, increment = part["loop"], f"increment of {unit(result['family'])}"
    image = heat_map(axes, part["mean"], loops)
    figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
    converged = any(value is None for row in part["mean"] for value in row)
    note = ", grey where converged" if converged else ""
    _finish(figure, result, increment, note, pictures, increment)
    columns = {str(loop): column for loop, column in zip(loops, part["mean"], strict=True)}
    axis = unit(result["family"])
    pictures.save(figure, "increment_cosines", axis, loops, {"cosine": columns})


def _rank(result: Dynamics, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    part = result["effective_rank"]
    values = numbers(part["value"])
    axes.plot(part["loop"], values, marker=".", **style_of(result.get("style", result["family"])))
    largest = max((value for value in part["value"] if value is not None), default=1.0)
    axes.set_ylim(0, 1.15 * largest)  # room for the label of b
    axes.set_xlim(-0.5, part["loop"][-1] + 0.5)  # also loops where the rank is nan
    note = ", none where all are alike" if np.isnan(values).any() else ""
    label = "effective rank of the states at x,\ncentred at each position"
    _finish(figure, result, label, note, pictures)
    curves = {"effective_rank": {"value": part["value"]}}
    pictures.save(figure, "effective_rank", unit(result["family"]), part["loop"], curves)


def _finish(
    figure: Figure, result: Dynamics, label: str, note: str, pictures: Pictures, x_label: str = ""
) -> None:
    """The parts that all pictures share: axis labels, b, the legend, and the title, which ends with
    `note`."""
    axes = figure.axes[0]
    if result["family"] != "standard":
        mark_loops(axes, result["b"])
    axes.set_xlabel(x_label or unit(result["family"]))
    axes.set_ylabel(label)
    whole_numbers(axes)
    task = result["task"].replace("_", " ")
    text = f"{task}, d = {result['dims']}, {result['family']}, {result['prompts']} prompts{note}"
    pictures.title(figure, text, result.get("remarks", []))
    if len(axes.get_legend_handles_labels()[1]) > 1:
        name_curves(figure, axes)
