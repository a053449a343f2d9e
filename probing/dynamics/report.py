"""The dynamics of a run as text for the terminal and as pictures: norms, changes, cosines between
increments, effective rank and, if all loops are the same, the distance from a fixed point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looplab.conf.schema import FigureSettings, TableFormat
from looplab.evaluation.bootstrap import Band, numbers
from looplab.evaluation.figures import (
    AnyCurve,
    Pictures,
    band,
    heat_map,
    mark_loops,
    name_curves,
    parts,
    whole_numbers,
)
from looplab.evaluation.results import unit
from looplab.evaluation.style import style_of, styles_of
from looplab.evaluation.tables import Table, document

from .results import Contraction, Dynamics, Residual


def report(result: Dynamics, form: TableFormat = "text") -> str:
    """A table of the measurements at a few loops; and the Jacobian at the last one."""
    axis, loops = unit(result["family"]), _handful(result["b"], result["loops"])
    rows = []
    for label, part_loops, values in _measurements(result):
        if part_loops[-1] < loops[-1]:
            label = f"{label}, to {axis} {part_loops[-1]}"
        texts = ["–" if value is None else f"{value:.3g}" for value in values]
        by_loop = dict(zip(part_loops, texts, strict=True))
        rows.append([label, *(by_loop.get(loop, "") for loop in loops)])
    table = Table([axis, *map(str, loops)], rows)
    return document([*result.get("remarks", []), table, "", *_sentences(result, axis)], form)


def _measurements(result: Dynamics) -> Iterator[tuple[str, list[int], list[float | None]]]:
    """Name, loops and values of each row: means, medians, or the rank itself."""
    norm, change, rank = result["norm"], result["change"], result["effective_rank"]
    if result["family"] != "standard":
        # A standard model's norm is at the read-out, so its two states are the same.
        yield "norm before the LayerNorm", norm["loop"], norm["raw"]["mean"]
    yield "norm of the state", norm["loop"], norm["stream"]["mean"]
    yield "change", change["loop"], change["absolute"]["mean"]
    yield "change / norm", change["loop"], change["relative"]["mean"]
    if "residual" in result:
        residual = result["residual"]
        yield "fixed-point residual", residual["loop"], residual["absolute"]["mean"]
        yield "residual / norm", residual["loop"], residual["relative"]["mean"]
        yield "  of the median prompt", residual["loop"], residual["over_prompts"]["median"]
    yield "effective rank", rank["loop"], rank["value"]


def _sentences(result: Dynamics, axis: str) -> Iterator[str]:
    """The single values: mean cosine, share of converged prompts, the Jacobian's factors."""
    pairs, last = result["cosines"]["pairs"], result["cosines"]["loop"][-1]
    if pairs:
        yield f"cosine of two different increments up to {axis} {last}, mean: {_span(pairs)}"
    if "residual" in result:
        converged = result["residual"]["at_rest"]
        yield (
            f"share of prompts converged by loop {result['loops']} (residual / norm below "
            f"{converged['below']:g}): {_span(converged)}"
        )
    if "contraction" in result:
        yield from _factors(result["contraction"])


def _factors(contraction: Contraction) -> Iterator[str]:
    yield f"the Jacobian of one loop at loop {contraction['loop']}:"
    norm = "spectral norm, the most that one loop stretches a small difference"
    radius = "spectral radius, what each loop leaves of one in the long run"
    for name, factor in (
        (norm, contraction["spectral_norm"]),
        (radius, contraction["spectral_radius"]),
    ):
        yield f"  {name}: {_span(factor)}"
        yield (
            f"    {factor['iterations']} iterations, of which the last eight changed it by at most "
            f"{factor['remaining_change']:.0e} of itself"
        )
    yield f"  share of prompts with a spectral radius below 1: {_span(contraction['below_one'])}"


def _handful(b: int, last: int) -> list[int]:
    """The read-in, the first loops, around b and beyond it."""
    if last < 10:
        return list(range(last + 1))
    return sorted({0, 1, 2, b // 2, b, 2 * b, 3 * b, last} & set(range(last + 1)))


def _span(curve: Band) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"


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
