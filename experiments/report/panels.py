"""The pictures of an evaluation, a comparison and a training as panels of curves, from their
files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Band
from looplab.evaluation.comparison import run_labels
from looplab.evaluation.errors import ERROR_RATE
from looplab.evaluation.figures.evaluation import curves, model_label, models
from looplab.evaluation.results import (
    NATS,
    ComparedRun,
    Comparison,
    Evaluation,
    ModelErrors,
    ShiftResult,
    by_loop_name,
    examples_name,
    of_loops,
    unit,
)
from looplab.experiments.named.results import Curve, Panel
from looplab.training.run_folder.metrics import smoothed

_LINEAR = (ERROR_RATE, NATS)  # errors that are not drawn on a log axis
_READINGS = 3  # numbers of loops at which a model was read: from here on a slider has them
_MOST = 120  # points of a curve; more lines of a log are averaged
_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_GROWING = ("loops", "dims", "points")


def main_panels(result: Evaluation) -> list[Panel]:
    """Errors by examples and by loop."""
    return [_by_examples(result), _by_loop(result)]


def further_panels(result: Evaluation) -> list[Panel]:
    """Errors above the optimum and on shifted inputs, changes by loop, what early exit saves."""
    panels = [_above_optimal(result)] if "above_optimal" in result else []
    if len(result["by_loop"]["loop"]) > 1:
        panels += [_changes(result), _early_exit(result)]
    if result["shifts"]:
        panels.append(_shifts_by_loop(result))
        panels += [_shift(result, name, shift) for name, shift in result["shifts"].items()]
    return panels


def comparison_panels(result: Comparison) -> list[Panel]:
    """Errors by examples, less the first run's, and by loop."""
    labels, runs = run_labels(result), result["runs"]
    first, *others = runs
    by_loop = {name: entry["by_loop"] for name, entry in runs.items()}
    loops = max(len(band["mean"]) for band in by_loop.values())
    solvers = [
        _curve(name, result["labels"][name], name, band)
        for name, band in result["baselines"].items()
    ]
    examples = [
        _curve(name, labels[name], _kind(entry), entry["by_examples"])
        for name, entry in runs.items()
    ]
    differences = [
        _curve(name, labels[name], _kind(runs[name]), runs[name]["minus_first"]["by_examples"])
        for name in others
    ]
    loop_curves = [
        _curve(name, labels[name], _kind(runs[name]), band, loops) | {"b": runs[name]["b"]}
        for name, band in by_loop.items()
    ]
    error = result["error"]
    log, axis = error not in _LINEAR, examples_name(error)
    by_examples = _panel(
        "error_by_examples", "Error by number of examples", axis, error, result["k"],
        [*examples, *solvers], levels=_levels(error), log_y=log,
    )  # fmt: skip
    difference = _panel(
        "difference_by_examples", f"Error less that of {labels[first]}, paired by prompt",
        axis, f"{error}, difference", result["k"], differences, levels={labels[first]: 0},
    )  # fmt: skip
    last = _panel(
        "error_by_loop", f"{of_loops(error).capitalize()} by loop",
        "loop (layer of a standard model)", by_loop_name(error, result["k"][-1]),
        range(1, loops + 1), loop_curves, read="loop", log_y=log,
    )  # fmt: skip
    return [by_examples, difference, last]


def _by_examples(result: Evaluation) -> Panel:
    part = result["by_examples"]
    readings = _readings(result, part)
    if len(readings) >= _READINGS:
        family = result["family"]
        model_curves = [
            _curve("model", f"{family}, read at the chosen {unit(family)}", _kind(result), band)
            | {"at": float(loops)}
            for loops, band in sorted(readings.items())
        ]
        rest = {
            name: entry
            for name, entry in curves(result).items()
            if all(entry[1] is not band for band in readings.values())
        }
    else:
        model_curves, rest = [], curves(result)
    panel = _panel(
        "error_by_examples",
        "Error by number of examples",
        examples_name(result["error"]),
        result["error"],
        part["k"],
        [*model_curves, *_labelled(result, rest), *_published(result)],
        levels=_levels(result["error"]),
        log_y=result["error"] not in _LINEAR,
    )
    if model_curves:
        panel |= {"slider": unit(result["family"]), "start": float(result["b"])}
    return panel


def _readings(result: Evaluation, part: ModelErrors) -> dict[int, Band]:
    """The model's curves by the number of loops at which it was read."""
    loops = part.get("loops", result["loops"])
    named = {str(result["b"]): part["model_at_b"], str(loops): part["model"]}
    named |= part.get("also_read", {})
    return {int(name): band for name, band in named.items() if name.isdecimal()}


def _by_loop(result: Evaluation) -> Panel:
    by_loop, family = result["by_loop"], result["family"]
    near, what = by_loop["near_least"], of_loops(result["error"]).capitalize()
    return _panel(
        "error_by_loop",
        f"{what} by {unit(family)}: within {near['within']:.0%} of its least from "
        f"{unit(family)} {near['loop']} on ({near['low']:g} to {near['high']:g})",
        unit(family),
        _last_query(result),
        by_loop["loop"],
        [_curve("model", family, _kind(result), by_loop["model"]) | {"b": result["b"]}],
        log_y=result["error"] not in _LINEAR,
        read=unit(family),
    )


def _changes(result: Evaluation) -> Panel:
    by_loop, name = result["by_loop"], unit(result["family"])
    return _panel(
        "change_by_loop",
        f"Change over one {name}, last query",
        name,
        "relative change",
        by_loop["loop"],
        [
            _curve("state", "state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖", "state", by_loop["state_change"])
            | {"b": result["b"]},
            _curve(
                "prediction", "prediction: |ŷₜ − ŷₜ₋₁| / std of y", "prediction",
                by_loop["prediction_change"],
            ),
        ],
        log_y=True,
        read=name,
    )  # fmt: skip


def _early_exit(result: Evaluation) -> Panel:
    by_loop, halting, family = result["by_loop"], result["halting"], result["family"]
    early = [
        _curve(on, f"early exit on the {on}'s change", on, halting[on]["error"])
        | {"x": halting[on]["loops"]["mean"]}
        for on in ("state", "prediction")
    ]
    return _panel(
        "halting",
        f"Error against {unit(family)}s used with early exit",
        f"mean {unit(family)}s used",
        _last_query(result),
        by_loop["loop"],
        [_curve("all", "all after as many", _kind(result), by_loop["model"]), *early],
        log_y=result["error"] not in _LINEAR,
    )


def _above_optimal(result: Evaluation) -> Panel:
    above = result["above_optimal"]
    return _panel(
        "above_optimal",
        f"Error above {result['labels'][above['over']]}, paired by prompt",
        examples_name(result["error"]),
        f"{result['error']}, above the optimum's",
        result["by_examples"]["k"],
        [
            _curve(name, label, _kind(result), band)
            for name, (label, band) in models(result, above).items()
        ],
        levels={result["labels"][above["over"]]: 0.0},
    )


def _shift(result: Evaluation, name: str, shift: ShiftResult) -> Panel:
    return _panel(
        f"shift_{name}",
        f"Shifted inputs: {shift['label']}",
        examples_name(result["error"]),
        result["error"],
        shift["k"],
        _labelled(result, curves(result, shift)),
        levels={"predicting zero": shift["zero"]},
        log_y=result["error"] not in _LINEAR,
    )


def _shifts_by_loop(result: Evaluation) -> Panel:
    name, by_loop = unit(result["family"]), result["by_loop"]
    shifted = [
        _curve(shift_name, shift["label"], f"shift {shift_name}", shift["by_loop"])
        for shift_name, shift in result["shifts"].items()
    ]
    trained = _curve("trained", "inputs as in training", _kind(result), by_loop["model"])
    longest = max([len(by_loop["loop"]), *(len(curve["mean"]) for curve in shifted)])
    return _panel(
        "shifts_by_loop",
        f"The last query's error on shifted inputs, by {name}",
        name,
        result["error"],
        range(1, longest + 1),
        [trained | {"b": result["b"]}, *shifted],
        log_y=result["error"] not in _LINEAR,
        read=name,
    )


def _labelled(result: Evaluation, named: Mapping[str, tuple[str, Band]]) -> list[Curve]:
    """Named curves, as `evaluation.pictures.curves` gives them: a model's kind is the family, a
    solver's its name."""
    return [
        _curve(name, label, name if name in result["labels"] else _kind(result), band)
        for name, (label, band) in named.items()
    ]


def _published(result: Evaluation) -> list[Curve]:
    published = []
    for entry in result["published"]:
        is_model = entry["name"] == "model"
        label = model_label(result["family"], result["loops"]) if is_model else entry["label"]
        mean, low, high = entry["mean"], entry["low"] or [], entry["high"] or []
        band: Band = {"mean": [*mean], "low": [*low], "high": [*high]}
        name = f"published_{entry['name']}"
        published.append(_curve(name, f"published: {label}", "published", band))
    return published


def _curve(name: str, label: str, kind: str, band: Band, length: int = 0) -> Curve:
    """A curve of a band, filled up with None to a length."""

    def filled(part: Sequence[float | None]) -> list[float | None]:
        return [*part, *[None] * (length - len(part))]

    mean, low, high = filled(band["mean"]), filled(band["low"]), filled(band["high"])
    return {"name": name, "label": label, "kind": kind, "mean": mean, "low": low, "high": high}


def _panel(
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    panel_curves: list[Curve],
    *,
    levels: Mapping[str, float] | None = None,
    log_y: bool = False,
    read: str = "",
) -> Panel:
    panel: Panel = {
        "name": name,
        "title": title,
        "x_label": x_label,
        "y_label": y_label,
        "x": list(x),
        "log_x": False,
        "log_y": log_y,
        "curves": panel_curves,
        "levels": dict(levels or {}),
    }
    return panel | {"read": read} if read else panel


def _kind(of: Evaluation | ComparedRun) -> str:
    """The kind of a model's curve: its way to loop, or its family."""
    named = of.get("style")  # an evaluation's, a compared run's
    return str(named or of["family"])


def _levels(error: str) -> dict[str, float]:
    if error == NATS:
        return {}
    return {"guessing": 0.5} if error == ERROR_RATE else {"predicting zero": 1.0}


def _last_query(result: Evaluation) -> str:
    return by_loop_name(result["error"], result["by_examples"]["k"][-1])


def training_panels(records: Sequence[dict[str, Any]], family: str) -> list[Panel]:
    """Loss by step (the line: a running mean; the band: least to largest of the log's lines there),
    and dims, points and loops where any of them changed; none for fewer than two records."""
    rows = [record for record in records if _is_number(record.get("loss"))]
    if len(rows) < 2:
        return []
    groups = [
        list(map(int, part)) for part in np.array_split(np.arange(len(rows)), min(len(rows), _MOST))
    ]
    x = [float(rows[part[-1]]["step"]) for part in groups]
    losses = [[float(rows[i]["loss"]) for i in part] for part in groups]
    each = [float(row["loss"]) for row in rows]
    smooth = smoothed(each, max(0.0, 1 - _WINDOW / len(rows)))
    means: list[float | None] = [float(smooth[part[-1]]) for part in groups]
    loss: Band = {"mean": means, "low": [*map(min, losses)], "high": [*map(max, losses)]}
    title = "Training loss (band: least to largest logged)"
    curve = _curve("loss", "loss, running mean", family, loss)
    log_y = min(map(min, losses)) > 0
    panels = [_panel("training", title, "step", "loss", x, [curve], log_y=log_y)]
    growing = []
    for name in _GROWING:
        if len({row.get(name) for row in rows}) > 1:
            values: list[Any] = [rows[part[-1]].get(name) for part in groups]
            ends = [float(value) if _is_number(value) else None for value in values]
            growing.append(_curve(name, name, name, {"mean": ends, "low": [], "high": []}))
    if growing:
        title = "What grows with the step"
        panels.append(_panel("curriculum", title, "step", "number", x, growing))
    return panels


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
