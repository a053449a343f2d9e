"""The pictures of one evaluation: errors by examples, by loop, above the optimum and on shifted
inputs; changes from loop to loop; and the loops that halting saves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from .bootstrap import Band, numbers
from .figures import (
    AnyCurve,
    band,
    error_axis,
    error_scale,
    legend_beside,
    line,
    log_above_rounding,
    mark_loops,
    note_level,
    padded,
    remark_lines,
    save,
    styled,
    whole_numbers,
)
from .results import Comparison, Evaluation, ModelErrors, ShiftResult, by_solver, unit

_PICTURES = (
    *("error_by_examples", "error_by_loop", "change_by_loop", "halting"),
    *("above_optimal", "shifts"),
)


def draw_evaluation(result: Evaluation, folder: Path) -> list[Path]:
    """Draw an evaluation's pictures into `folder`, and remove those of an earlier one; returns the
    files."""
    files = [folder / f"{name}{kind}" for name in _PICTURES for kind in (".png", ".csv")]
    for path in files:
        path.unlink(missing_ok=True)
    with styled():
        _by_examples(result, folder / "error_by_examples.png")
        _by_loop(result, folder / "error_by_loop.png")
        if len(result["by_loop"]["loop"]) > 1:
            _change_by_loop(result, folder / "change_by_loop.png")
            _halting(result, folder / "halting.png")
        if "above_optimal" in result:
            _above_optimal(result, folder / "above_optimal.png")
        if result["shifts"]:
            _shifts(result, folder / "shifts.png")
    return [path for path in files if path.exists()]


def model_label(family: str, loops: int | str) -> str:
    """'looped, 12 loops', 'standard, 12 layers', or 'looped, halting'."""
    if loops == "auto":
        return f"{family}, halting"
    if not str(loops).isdecimal():  # the name of a halting rule
        return f"{family}, {loops}"
    return f"{family}, {loops} {unit(family)}{'s' if int(loops) != 1 else ''}"


def models(result: Evaluation, part: ModelErrors) -> dict[str, tuple[str, Band]]:
    """The model's curves in one part of a result, from name to label and values: at b loops, and at
    the other loops that this evaluation and further ones of the run read it at."""
    family = result["family"]
    legend = {"model_at_b": (model_label(family, result["b"]), part["model_at_b"])}
    loops = part.get("loops", result["loops"])
    if str(loops) != str(result["b"]):
        legend["model"] = (model_label(family, loops), part["model"])
    for name, curve in part.get("also_read", {}).items():
        legend["model_" + re.sub(r"\W+", "_", name)] = (model_label(family, name), curve)
    return legend


def curves(result: Evaluation, shift: ShiftResult | None = None) -> dict[str, tuple[str, Band]]:
    """All curves by number of examples, on the task's or on shifted inputs, in the legend's order:
    the model's, then the solvers'."""
    part, labels = (shift, shift["labels"]) if shift else (result["by_examples"], result["labels"])
    return models(result, part) | {
        name: (label, by_solver(part)[name]) for name, label in labels.items()
    }


def title(result: Evaluation | Comparison) -> str:
    """Task, dimensions, prompts and the meaning of the bands; below them the remarks on the run."""
    task = result["task"].replace("_", " ")
    size = f"{task}, d = {result['dims']}, {result['prompts']} prompts, 90 % bands"
    return size + remark_lines(result)


def finish(
    figure: Figure,
    result: Evaluation | Comparison,
    path: Path,
    axis: str,
    x: Sequence[float | None],
    columns: Mapping[str, AnyCurve],
) -> None:
    """Add legend and title to a picture of one panel, and save it."""
    (axes,) = figure.axes
    legend_beside(axes)
    figure.suptitle(title(result))
    save(figure, path, axis, x, columns)


def _by_examples(result: Evaluation, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    k, legend = result["by_examples"]["k"], curves(result)
    for index, (name, (label, curve)) in enumerate(legend.items()):
        band(axes, k, curve, label, line(index, dashed=name in result["labels"]))
    axes.set_xlabel("in-context examples k")
    whole_numbers(axes)
    model_curves = [curve for _, curve in models(result, result["by_examples"]).values()]
    error_axis(axes, result["error"], model_curves, [curve for _, curve in legend.values()])
    finish(figure, result, path, "k", k, {name: curve for name, (_, curve) in legend.items()})


def _by_loop(result: Evaluation, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    loops, curve = result["by_loop"]["loop"], result["by_loop"]["model"]
    band(axes, loops, curve, result["family"], line(0))
    mark_loops(axes, result["b"])
    loop = result["by_loop"]["near_least"]["loop"]
    height = numbers(curve["mean"])[loop - 1]
    axes.plot(loop, height, "o", color=line(1)["color"], label=_near_text(result))
    axes.set_xlabel(unit(result["family"]))
    axes.set_ylabel(_last_query_label(result))
    error_scale(axes, result["error"])
    whole_numbers(axes)
    finish(figure, result, path, unit(result["family"]), loops, {"model": curve})


def _change_by_loop(result: Evaluation, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    by_loop, b = result["by_loop"], result["b"]
    change_curves = {name: by_loop[name] for name in ("state_change", "prediction_change")}
    labels = ("state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖", "prediction: |ŷₜ − ŷₜ₋₁| / std of y")
    for index, (curve, label) in enumerate(zip(change_curves.values(), labels, strict=True)):
        band(axes, by_loop["loop"], curve, label, line(index))
    mark_loops(axes, b)
    axes.set_xlabel(unit(result["family"]))
    axes.set_ylabel(f"change over one {unit(result['family'])}, last query")
    axes.set_yscale("log")
    whole_numbers(axes)
    finish(figure, result, path, unit(result["family"]), by_loop["loop"], change_curves)


def _halting(result: Evaluation, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    halting, by_loop = result["halting"], result["by_loop"]
    band(axes, by_loop["loop"], by_loop["model"], "all after as many", line(0))
    for on in ("state", "prediction"):
        loops_used, error = halting[on]["loops"]["mean"], halting[on]["error"]
        style = line(1 if on == "state" else 2)
        band(axes, loops_used, error, f"early exit on the {on}'s change", style)
        axes.plot(numbers(loops_used), numbers(error["mean"]), ".", color=style["color"])
    mark_loops(axes, result["b"])
    axes.set_xlabel(f"mean {unit(result['family'])}s used (dots: tolerances 1 to 0.0001)")
    axes.set_ylabel(_last_query_label(result))
    error_scale(axes, result["error"])
    named_curves: dict[str, AnyCurve] = {
        "all_loops": {"mean": by_loop["loop"]},
        "all_error": by_loop["model"],
        **{
            f"{on}_{part}": halting[on][part]
            for on in ("state", "prediction")
            for part in ("loops", "error")
        },
    }
    # Rows of all_loops and all_error are independent of the tolerances beside them.
    rows = max(len(by_loop["loop"]), len(halting["tolerance"]))
    columns = {name: padded(curve, rows) for name, curve in named_curves.items()}
    tolerances = [*halting["tolerance"], *[None] * (rows - len(halting["tolerance"]))]
    finish(figure, result, path, "tolerance", tolerances, columns)


def _above_optimal(result: Evaluation, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    k, above = result["by_examples"]["k"], result["above_optimal"]
    legend = models(result, above)
    for index, (label, curve) in enumerate(legend.values()):
        band(axes, k, curve, label, line(index))
    note_level(axes, 0, result["labels"][above["over"]])
    axes.set_xlabel("in-context examples k")
    axes.set_ylabel(f"{result['error']}, above the optimum's")
    whole_numbers(axes)
    legend_beside(axes)
    figure.suptitle(title(result).replace("bands", "bands of the paired difference"))
    save(figure, path, "k", k, {name: curve for name, (_, curve) in legend.items()})


def _shifts(result: Evaluation, path: Path) -> None:
    """One panel per shift, the same curves in each."""
    shifts = result["shifts"]
    columns = min(4, len(shifts))
    rows = math.ceil(len(shifts) / columns)
    figure = Figure(figsize=(max(6.4, 3.2 * columns), 2.6 * rows + 0.8))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    named_curves: dict[str, AnyCurve] = {}
    for panel, (name, shift) in zip(panels, shifts.items(), strict=False):
        legend = curves(result, shift)
        model_curves = [curve for _, curve in models(result, shift).values()]
        for index, (part, (label, curve)) in enumerate(legend.items()):
            band(panel, shift["k"], curve, label, line(index, dashed=part in shift["labels"]))
            named_curves[f"{name}_{part}"] = curve
        note_level(panel, shift["zero"], "zero")
        highs = [value for curve in model_curves for value in curve["high"] if value is not None]
        max_height = 3 * max(shift["zero"], *highs)
        log_above_rounding(panel, model_curves, [curve for _, curve in legend.values()], max_height)
        whole_numbers(panel)
        panel.set_title(shift["label"], fontsize=10)
    for panel in panels[max(0, len(shifts) - columns) : len(shifts)]:
        panel.set_xlabel("in-context examples k")
    for panel in panels[len(shifts) :]:
        panel.remove()
    figure.supylabel(result["error"])
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    figure.suptitle(f"{title(result)}; dotted: predicting zero")
    k = max((shift["k"] for shift in shifts.values()), key=len)
    save(
        figure, path, "k", k, {name: padded(curve, len(k)) for name, curve in named_curves.items()}
    )


def _near_text(result: Evaluation) -> str:
    near, name = result["by_loop"]["near_least"], unit(result["family"])
    span = f"{near['low']:g} to {near['high']:g}"
    return f"first within {near['within']:.0%} of the least:\n{name} {near['loop']} ({span})"


def _last_query_label(result: Evaluation) -> str:
    return f"{result['error']} at k = {result['by_examples']['k'][-1]}"
