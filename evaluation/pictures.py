"""The pictures of one evaluation: error by examples, by loop, above the optimum, on shifted inputs;
what changes from loop to loop; and what halting saves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .figures import (
    Curve,
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

_PICTURES = (
    *("error_by_examples", "error_by_loop", "change_by_loop", "halting"),
    *("above_optimal", "shifts"),
)


def draw_evaluation(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw an evaluation's pictures into `folder`, and remove those of an earlier one; the files
    that are there now."""
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


def model_label(result: Mapping[str, Any], loops: int | str) -> str:
    """'looped, 12 loops', 'standard, 12 layers', or 'looped, halting'."""
    if loops == "auto":
        return f"{result['family']}, halting"
    if not str(loops).isdecimal():  # by which rule, where several are shown
        return f"{result['family']}, {loops}"
    loops = int(loops)
    unit = "layer" if result["family"] == "standard" else "loop"
    return f"{result['family']}, {loops} {unit}{'s' if loops != 1 else ''}"


def models(result: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, tuple[str, Curve]]:
    """The model's curves in one part of a result, name to label and values: at b loops, and at
    those asked for where they are others, by this evaluation or another one of the run."""
    shown = {"model_at_b": (model_label(result, result["b"]), part["model_at_b"])}
    read_at = part.get("loops", result["loops"])
    if str(read_at) != str(result["b"]):
        shown["model"] = (model_label(result, read_at), part["model"])
    for name, curve in part.get("also_read", {}).items():
        shown["model_" + re.sub(r"\W+", "_", name)] = (model_label(result, name), curve)
    return shown


def curves(result: Mapping[str, Any]) -> dict[str, tuple[str, Curve]]:
    """All curves by number of examples in the order they are shown: the model's, then the rest."""
    by_examples, labels = result["by_examples"], result["labels"]
    rest = {name: (labels[name], by_examples[name]) for name in labels}
    return models(result, by_examples) | rest


def title(result: Mapping[str, Any]) -> str:
    """Task, dimensions, prompts and what the bands are; and what is to be known of the run."""
    task = result["task"].replace("_", " ")
    size = f"{task}, d = {result['dims']}, {result['prompts']} prompts, 90 % bands"
    return size + remark_lines(result)


def _by_examples(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    k, shown = result["by_examples"]["k"], curves(result)
    for index, (name, (label, curve)) in enumerate(shown.items()):
        band(axes, k, curve, label, line(index, dashed=name in result["labels"]))
    axes.set_xlabel("in-context examples k")
    whole_numbers(axes)
    own = [curve for _, curve in models(result, result["by_examples"]).values()]
    error_axis(axes, result["error"], own, [curve for _, curve in shown.values()])
    legend_beside(axes)
    figure.suptitle(title(result))
    save(figure, path, "k", k, {name: curve for name, (_, curve) in shown.items()})


def _by_loop(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    loops, curve, near = (result["by_loop"][key] for key in ("loop", "model", "near_least"))
    band(axes, loops, curve, result["family"], line(0))
    mark_loops(axes, result["b"])
    at = near["loop"]
    axes.plot(at, curve["mean"][at - 1], "o", color=line(1)["color"], label=_near_text(result))
    axes.set_xlabel(_unit(result))
    axes.set_ylabel(_last(result))
    error_scale(axes, result["error"])
    whole_numbers(axes)
    legend_beside(axes)
    figure.suptitle(title(result))
    save(figure, path, _unit(result), loops, {"model": curve})


def _change_by_loop(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    by_loop, b = result["by_loop"], result["b"]
    shown = {name: by_loop[name] for name in ("state_change", "prediction_change")}
    labels = ("state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖", "prediction: |ŷₜ − ŷₜ₋₁| / std of y")
    for index, (curve, label) in enumerate(zip(shown.values(), labels, strict=True)):
        band(axes, by_loop["loop"], curve, label, line(index))
    mark_loops(axes, b)
    axes.set_xlabel(_unit(result))
    axes.set_ylabel(f"change over one {_unit(result)}, last query")
    axes.set_yscale("log")
    whole_numbers(axes)
    legend_beside(axes)
    figure.suptitle(title(result))
    save(figure, path, _unit(result), by_loop["loop"], shown)


def _halting(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    halting, by_loop = result["halting"], result["by_loop"]
    band(axes, by_loop["loop"], by_loop["model"], "all after as many", line(0))
    for index, on in enumerate(("state", "prediction"), start=1):
        used, error = halting[on]["loops"]["mean"], halting[on]["error"]
        band(axes, used, error, f"early exit on the {on}'s change", line(index))
        axes.plot(used, error["mean"], ".", color=line(index)["color"])
    mark_loops(axes, result["b"])
    axes.set_xlabel(f"mean {_unit(result)}s used (dots: tolerances 1 to 0.0001)")
    axes.set_ylabel(_last(result))
    error_scale(axes, result["error"])
    legend_beside(axes)
    figure.suptitle(title(result))
    shown: dict[str, Curve] = {
        "all_loops": {"mean": by_loop["loop"]},
        "all_error": by_loop["model"],
        **{
            f"{on}_{part}": halting[on][part]
            for on in ("state", "prediction")
            for part in ("loops", "error")
        },
    }
    # The rows of what all use have nothing to do with those of the tolerances beside them.
    rows = max(len(by_loop["loop"]), len(halting["tolerance"]))
    columns = {name: padded(curve, rows) for name, curve in shown.items()}
    tolerances = padded({"tolerance": halting["tolerance"]}, rows)["tolerance"]
    save(figure, path, "tolerance", tolerances, columns)


def _above_optimal(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    k, above = result["by_examples"]["k"], result["above_optimal"]
    shown = models(result, above)
    for index, (label, curve) in enumerate(shown.values()):
        band(axes, k, curve, label, line(index))
    note_level(axes, 0, result["labels"][above["over"]])
    axes.set_xlabel("in-context examples k")
    axes.set_ylabel(f"{result['error']}, above the optimum's")
    whole_numbers(axes)
    legend_beside(axes)
    figure.suptitle(title(result).replace("bands", "bands of the paired difference"))
    save(figure, path, "k", k, {name: curve for name, (_, curve) in shown.items()})


def _shifts(result: Mapping[str, Any], path: Path) -> None:
    """One panel a shift, the same curves in each."""
    shifts = result["shifts"]
    columns = min(4, len(shifts))
    rows = math.ceil(len(shifts) / columns)
    figure = Figure(figsize=(max(6.4, 3.2 * columns), 2.6 * rows + 0.8))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    columns_of: dict[str, Curve] = {}
    for panel, (name, shift) in zip(panels, shifts.items(), strict=False):
        shown = models(result, shift)
        own = [curve for _, curve in shown.values()]
        shown |= {solver: (label, shift[solver]) for solver, label in shift["labels"].items()}
        for index, (part, (label, curve)) in enumerate(shown.items()):
            band(panel, shift["k"], curve, label, line(index, dashed=part in shift["labels"]))
            columns_of[f"{name}_{part}"] = curve
        note_level(panel, shift["zero"], "zero")
        highs = [value for curve in own for value in curve["high"] if value is not None]
        most = 3 * max(shift["zero"], *highs)
        log_above_rounding(panel, own, [curve for _, curve in shown.values()], most)
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
    save(figure, path, "k", k, {name: padded(curve, len(k)) for name, curve in columns_of.items()})


def _near_text(result: Mapping[str, Any]) -> str:
    near = result["by_loop"]["near_least"]
    span = f"{near['low']:g} to {near['high']:g}"
    return (
        f"first within {near['within']:.0%} of the least:\n{_unit(result)} {near['loop']} ({span})"
    )


def _last(result: Mapping[str, Any]) -> str:
    return f"{result['error']} at k = {result['by_examples']['k'][-1]}"


def _unit(result: Mapping[str, Any]) -> str:
    return "layer" if result["family"] == "standard" else "loop"
