"""The pictures of one evaluation: errors by examples, by loop, above the optimum and on shifted
inputs; changes from loop to loop; the loops that halting saves; and the training."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from looplab.conf.schema import FigureSettings
from looplab.training.run_folder.metrics import smoothed

from ..bootstrap import Band, numbers
from ..results import (
    NATS,
    Comparison,
    Evaluation,
    ModelErrors,
    ShiftResult,
    by_loop_name,
    by_solver,
    examples_name,
    unit,
)
from ..style import LineStyle, style_of, styles_of
from .canvas import FORMATS, Pictures
from .curves import (
    AnyCurve,
    Curve,
    band,
    error_axis,
    error_scale,
    log_above_rounding,
    mark_loops,
    name_curves,
    note_level,
    outer_labels,
    padded,
    whole_numbers,
)

_PICTURES = (
    *("error_by_examples", "error_by_loop", "change_by_loop", "halting"),
    *("above_optimal", "shifts", "training"),
)
_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_STAGE = ("loops", "dims", "points")


def draw_evaluation(
    result: Evaluation,
    folder: Path,
    settings: FigureSettings | None = None,
    metrics: Sequence[Mapping[str, float]] = (),
) -> list[Path]:
    """Draw an evaluation's pictures into `folder`, that of the training from the records of its
    metrics if there are any, and remove those of an earlier one; returns the files."""
    for name in _PICTURES:
        for kind in (*FORMATS, "csv"):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)
    with Pictures(folder, settings) as pictures:
        _by_examples(result, pictures)
        _by_loop(result, pictures)
        if len(result["by_loop"]["loop"]) > 1:
            _change_by_loop(result, pictures)
            _halting(result, pictures)
        if "above_optimal" in result:
            _above_optimal(result, pictures)
        if result["shifts"]:
            _shifts(result, pictures)
        if metrics:
            draw_training(result, metrics, pictures)
    return pictures.files


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
    """Task, dimensions, prompts and the meaning of the bands."""
    task = result["task"].replace("_", " ")
    dims = "" if result["error"] == NATS else f", d = {result['dims']}"
    return f"{task}{dims}, {result['prompts']} prompts, 90 % bands"


def finish(
    figure: Figure,
    result: Evaluation | Comparison,
    pictures: Pictures,
    name: str,
    axis: str,
    x: Sequence[float | None],
    columns: Mapping[str, AnyCurve],
) -> None:
    """Add legend and title to a picture of one panel, and save it."""
    pictures.title(figure, title(result), result.get("remarks", []))
    name_curves(figure)
    pictures.save(figure, name, axis, x, columns)


def _kind(result: Evaluation) -> str:
    return result.get("style", result["family"])


def _styles(result: Evaluation, names: Sequence[str]) -> list[LineStyle]:
    """The styles of curves by their names in the legend: the model's and the solvers'."""
    kind = _kind(result)
    return styles_of([kind if name.startswith("model") else name for name in names])


def _by_examples(result: Evaluation, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    k, legend = result["by_examples"]["k"], curves(result)
    for (label, curve), style in zip(legend.values(), _styles(result, list(legend)), strict=True):
        band(axes, k, curve, label, style)
    axes.set_xlabel(examples_name(result["error"]))
    whole_numbers(axes)
    model_curves = [curve for _, curve in models(result, result["by_examples"]).values()]
    error_axis(axes, result["error"], model_curves, [curve for _, curve in legend.values()])
    columns = {name: curve for name, (_, curve) in legend.items()}
    finish(figure, result, pictures, "error_by_examples", "k", k, columns)


def _by_loop(result: Evaluation, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    loops, curve = result["by_loop"]["loop"], result["by_loop"]["model"]
    band(axes, loops, curve, result["family"], style_of(_kind(result)))
    mark_loops(axes, result["b"])
    loop = result["by_loop"]["near_least"]["loop"]
    height = numbers(curve["mean"])[loop - 1]
    axes.plot(loop, height, "o", color="black", fillstyle="none", label=_near_text(result))
    axes.set_xlabel(unit(result["family"]))
    axes.set_ylabel(_last_query_label(result))
    error_scale(axes, result["error"])
    whole_numbers(axes)
    axis = unit(result["family"])
    finish(figure, result, pictures, "error_by_loop", axis, loops, {"model": curve})


def _change_by_loop(result: Evaluation, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    by_loop, b = result["by_loop"], result["b"]
    change_curves = {name: by_loop[name] for name in ("state_change", "prediction_change")}
    labels = ("state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖", "prediction: |ŷₜ − ŷₜ₋₁| / std of y")
    for (name, curve), label in zip(change_curves.items(), labels, strict=True):
        band(axes, by_loop["loop"], curve, label, style_of(name.removesuffix("_change")))
    mark_loops(axes, b)
    axes.set_xlabel(unit(result["family"]))
    of = "mean" if result["error"] == NATS else "last query"
    axes.set_ylabel(f"change over one {unit(result['family'])}, {of}")
    axes.set_yscale("log")
    whole_numbers(axes)
    axis = unit(result["family"])
    finish(figure, result, pictures, "change_by_loop", axis, by_loop["loop"], change_curves)


def _halting(result: Evaluation, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    halting, by_loop = result["halting"], result["by_loop"]
    band(axes, by_loop["loop"], by_loop["model"], "all after as many", style_of(_kind(result)))
    for on in ("state", "prediction"):
        loops_used, error = halting[on]["loops"]["mean"], halting[on]["error"]
        style = style_of(on)
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
    finish(figure, result, pictures, "halting", "tolerance", tolerances, columns)


def _above_optimal(result: Evaluation, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    k, above = result["by_examples"]["k"], result["above_optimal"]
    legend = models(result, above)
    for (label, curve), style in zip(legend.values(), _styles(result, list(legend)), strict=True):
        band(axes, k, curve, label, style)
    note_level(axes, 0, result["labels"][above["over"]])
    axes.set_xlabel(examples_name(result["error"]))
    axes.set_ylabel(f"{result['error']}, above the optimum's")
    whole_numbers(axes)
    text = title(result).replace("bands", "bands of the paired difference")
    pictures.title(figure, text, result.get("remarks", []))
    name_curves(figure)
    columns = {name: curve for name, (_, curve) in legend.items()}
    pictures.save(figure, "above_optimal", "k", k, columns)


def _shifts(result: Evaluation, pictures: Pictures) -> None:
    """One panel per shift, the same curves in each."""
    shifts = result["shifts"]
    figure, panels = pictures.panels(len(shifts), 4, 3.2, 2.6)
    named_curves: dict[str, AnyCurve] = {}
    for panel, (name, shift) in zip(panels, shifts.items(), strict=True):
        legend = curves(result, shift)
        model_curves = [curve for _, curve in models(result, shift).values()]
        styles = _styles(result, list(legend))
        for (part, (label, curve)), style in zip(legend.items(), styles, strict=True):
            band(panel, shift["k"], curve, label, style)
            named_curves[f"{name}_{part}"] = curve
        note_level(panel, shift["zero"], "zero")
        highs = [value for curve in model_curves for value in curve["high"] if value is not None]
        max_height = 3 * max(shift["zero"], *highs)
        log_above_rounding(panel, model_curves, [curve for _, curve in legend.values()], max_height)
        whole_numbers(panel)
        panel.set_title(shift["label"])
    outer_labels(panels, x=examples_name(result["error"]))
    figure.supylabel(result["error"])
    text = f"{title(result)}; dotted: predicting zero"
    pictures.title(figure, text, result.get("remarks", []))
    name_curves(figure, panels[0])
    k = max((shift["k"] for shift in shifts.values()), key=len)
    columns = {name: padded(curve, len(k)) for name, curve in named_curves.items()}
    pictures.save(figure, "shifts", "k", k, columns)


def _near_text(result: Evaluation) -> str:
    near, name = result["by_loop"]["near_least"], unit(result["family"])
    span = f"{near['low']:g} to {near['high']:g}"
    return f"first within {near['within']:.0%} of the least:\n{name} {near['loop']} ({span})"


def _last_query_label(result: Evaluation) -> str:
    return by_loop_name(result["error"], result["by_examples"]["k"][-1])


def draw_training(
    result: Evaluation, metrics: Sequence[Mapping[str, float]], pictures: Pictures
) -> None:
    """Draw training.png of the records of metrics.jsonl, in the order of their steps: the loss as
    it is and smoothed, and its loops (layers), dimensions and points."""
    steps = [int(record["step"]) for record in metrics]
    losses = [_finite(record.get("loss")) for record in metrics]
    decay = max(0.0, 1 - _WINDOW / len(losses))
    smooth = [_finite(value) for value in smoothed(numbers(losses), decay).tolist()]
    # What is the same all along needs no panel; loops, or layers, and dimensions always have one.
    rows = {name: [_finite(record.get(name)) for record in metrics] for name in _STAGE}
    shown = [name for name in _STAGE if name != "points" or len(set(rows[name])) > 1]
    figure = pictures.figure(6.4, 3.0 + 0.7 * len(shown))
    top, *below = figure.subplots(
        1 + len(shown), sharex=True, height_ratios=[4, *[1] * len(shown)], squeeze=False
    )[:, 0]
    style = style_of(result.get("style", result["family"]))
    marker = "o" if len(steps) == 1 else None
    top.plot(steps, numbers(losses), color=style["color"], linewidth=0.6, alpha=0.4)
    top.plot(steps, numbers(smooth), color=style["color"], marker=marker)
    top.set_ylabel("loss")
    positive = [loss for loss in losses if loss is not None and loss > 0]
    if len(positive) == len(losses) and max(positive) > 4 * min(positive):
        top.set_yscale("log")
    for axes, name in zip(below, shown, strict=True):
        axes.plot(steps, numbers(rows[name]), color="black", linewidth=1, drawstyle="steps-post")
        axes.set_ylabel(f"{unit(result['family'])}s" if name == "loops" else name)
        highest = max(numbers(rows[name]))
        axes.set_ylim(0, 1.25 * highest if math.isfinite(highest) else None)
        axes.set_yticks([0, highest] if math.isfinite(highest) else [0])
    figure.align_ylabels()
    (below[-1] if below else top).set_xlabel("step")
    task = result["task"].replace("_", " ")
    text = f"training of {result['family']} on {task}, d = {result['dims']}; thick: smoothed"
    pictures.title(figure, text, result.get("remarks", []))
    curves: dict[str, Curve] = {
        "loss": {"raw": losses, "smoothed": smooth},
        "stage": {name: rows[name] for name in _STAGE},
    }
    pictures.save(figure, "training", "step", steps, curves)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(np.float64(value)) else float(value)
