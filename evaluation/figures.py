"""The panels of an evaluation, of a comparison and of a training, from their JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from looplab.training.run_folder.metrics import smoothed

from .bootstrap import Band
from .panel import Curve, Panel
from .results import (
    ERROR_RATE,
    NATS,
    Evaluation,
    by_loop_name,
    examples_name,
    of_loops,
    unit,
)

_LINEAR = (ERROR_RATE, NATS)  # errors that are not drawn on a log axis
_LEVELS = {ERROR_RATE: {"guessing": 0.5}, NATS: dict[str, float]()}
_MOST = 120  # points of a training's curve; more lines of a log are averaged
_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_CHANGES = {
    "state": "state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖", "prediction": "prediction: |ŷₜ − ŷₜ₋₁| / std of y",
}  # fmt: skip


def model_label(family: str, loops: int | str) -> str:
    """'looped, 12 loops', 'standard, 12 layers', or 'looped, early exit'."""
    if loops == "auto":
        return f"{family}, early exit"
    return f"{family}, {loops} {unit(family)}{'s' if int(loops) != 1 else ''}"


def run_labels(result: Mapping[str, Any]) -> dict[str, str]:
    """A short label for each run: its kind of model, loops and seed, and the end of its name if
    these are not unique."""
    labels = {
        name: f"{model_label(entry['style'], entry['loops'])}, seed {entry['seed']}"
        for name, entry in result["runs"].items()
    }
    all_labels = list(labels.values())
    return {
        name: label if all_labels.count(label) == 1 else f"{label} ({name.rpartition('-')[2]})"
        for name, label in labels.items()
    }


def models(result: Evaluation, part: Mapping[str, Any]) -> list[Curve]:
    """The model's curves in one part of a result: at b loops, and at the others that this
    evaluation read it at."""
    loops: dict[str, int | str] = {"model_at_b": result["b"]}
    if str(result["loops"]) != str(result["b"]):
        loops["model"] = result["loops"]
    return [
        Curve.of(model_label(result["family"], each), result["style"], part[name], name=name)
        for name, each in loops.items()
    ]


def curves(result: Evaluation, shift: Mapping[str, Any] | None = None) -> list[Curve]:
    """All curves by number of examples, on the task's or on shifted inputs, in the legend's order:
    the model's, then the solvers'."""
    part, labels = (shift, shift["labels"]) if shift else (result["by_examples"], result["labels"])
    solvers = [
        Curve.of(label, name, part[name], name=name, solver=True) for name, label in labels.items()
    ]
    return [*models(result, part), *solvers]


def published_curve(entry: Mapping[str, Any]) -> Curve:
    """A printed curve beside a run's."""
    parts: dict[str, Any] = {part: entry[part] or () for part in ("mean", "low", "high")}
    label, name = f"published: {entry['label']}", f"published_{entry['name']}"
    return Curve(label=label, kind="published", name=name, solver=True, **parts)


def title(result: Mapping[str, Any]) -> str:
    """Task, dimensions, prompts and the meaning of the bands."""
    task = result["task"].replace("_", " ")
    dims = "" if result["error"] == NATS else f", d = {result['dims']}"
    return f"{task}{dims}, {result['prompts']} prompts, 90 % bands"


def evaluation_panels(result: Evaluation) -> list[Panel]:
    """Errors by examples, by loop, above the optimum and on shifted inputs; changes by loop, and
    what early exit saves."""
    error, examples = result["error"], examples_name(result["error"])
    published = map(published_curve, result["published"])
    panels = [
        _errors(
            "error_by_examples", "Error by number of examples", error, (examples, error),
            result["by_examples"]["k"], [*curves(result), *published],
        ),
        _by_loop(result),
    ]  # fmt: skip
    if above := result.get("above_optimal"):
        optimum = result["labels"][above["over"]]
        panels.append(
            Panel(
                "above_optimal", f"Error above {optimum}, bands of the paired difference", examples,
                f"{error}, above the optimum's", result["by_examples"]["k"],
                models(result, above), levels={optimum: 0.0},
            )
        )  # fmt: skip
    if len(result["by_loop"]["loop"]) > 1:
        panels += [_changes(result), _early_exit(result)]
    if result["shifts"]:
        panels.append(_shifts_by_loop(result))
        panels += [_shift(result, name, shift) for name, shift in result["shifts"].items()]
    return panels


def _by_loop(result: Evaluation) -> Panel:
    by_loop, name = result["by_loop"], unit(result["family"])
    near, what = by_loop["near_least"], of_loops(result["error"]).capitalize()
    first = f"first within {near['within']:.0%} of the least"
    height = by_loop["model"]["mean"][near["loop"] - 1]
    return _errors(
        "error_by_loop",
        f"{what} by {name}, {first} at {name} {near['loop']} ({near['low']:g} to {near['high']:g})",
        result["error"], (name, _last_query(result)), by_loop["loop"],
        [
            Curve.of(
                result["family"], result["style"], by_loop["model"], name="model", b=result["b"]
            ),
            Curve(
                label=first, kind="median", mean=[height], x=[near["loop"]], points=True,
                name="near_least",
            ),
        ],
        levels=False,
    )  # fmt: skip


def _changes(result: Evaluation) -> Panel:
    by_loop, name = result["by_loop"], unit(result["family"])
    of = "mean" if result["error"] == NATS else "last query"
    drawn = [
        Curve.of(label, on, by_loop[f"{on}_change"], name=on, b=result["b"])
        for on, label in _CHANGES.items()
    ]
    return Panel(
        "change_by_loop", f"Change over one {name}", name, f"change over one {name}, {of}",
        by_loop["loop"], drawn, log="y",
    )  # fmt: skip


def _early_exit(result: Evaluation) -> Panel:
    by_loop, halting, name = result["by_loop"], result["halting"], unit(result["family"])
    first, last = (halting["tolerance"][end] for end in (0, -1))
    early = [
        Curve.of(
            f"early exit on the {on}'s change", on, halting[on]["error"], name=on,
            x=halting[on]["loops"]["mean"],
        )
        for on in _CHANGES
    ]  # fmt: skip
    return _errors(
        "halting", f"Error against {name}s used with early exit", result["error"],
        (f"mean {name}s used (dots: tolerances {first:g} to {last:g})", _last_query(result)),
        by_loop["loop"],
        [Curve.of("all after as many", result["style"], by_loop["model"], name="all"), *early],
        levels=False,
    )  # fmt: skip


def _shift(result: Evaluation, name: str, shift: Mapping[str, Any]) -> Panel:
    highs = [high for curve in models(result, shift) for high in curve.high]
    return Panel(
        f"shift_{name}", shift["label"], examples_name(result["error"]), result["error"],
        shift["k"], curves(result, shift),
        log="" if result["error"] in _LINEAR else "y",
        limits=(None, 3 * max(shift["zero"], *(high for high in highs if high is not None))),
        levels={"predicting zero": shift["zero"]}, picture="shifts",
    )  # fmt: skip


def _shifts_by_loop(result: Evaluation) -> Panel:
    name, by_loop = unit(result["family"]), result["by_loop"]
    shifted = [
        Curve.of(shift["label"], f"shift {key}", shift["by_loop"], name=key)
        for key, shift in result["shifts"].items()
    ]
    trained = Curve.of(
        "inputs as in training", result["style"], by_loop["model"], name="trained", b=result["b"]
    )
    return _errors(
        "shifts_by_loop", f"The last query's error on shifted inputs, by {name}", result["error"],
        (name, result["error"]), _loops([trained, *shifted]), [trained, *shifted], levels=False,
    )  # fmt: skip


def comparison_panels(result: Mapping[str, Any]) -> list[Panel]:
    """Errors by examples, less the first run's, and by loop, of runs."""
    runs, error, labels = result["runs"], result["error"], run_labels(result)
    first, *others = runs
    axis = examples_name(error)

    def of_runs(names: Iterable[str], part: str) -> list[Curve]:
        return [
            Curve.of(
                labels[name], runs[name]["style"], runs[name][part], name=name,
                b=runs[name]["b"] if part == "by_loop" else None,
            )
            for name in names
        ]  # fmt: skip

    solvers = [
        Curve.of(result["labels"][name], name, band, name=name, solver=True)
        for name, band in result["baselines"].items()
    ]
    differences = [
        Curve.of(
            labels[name], runs[name]["style"], runs[name]["minus_first"]["by_examples"], name=name
        )
        for name in others
    ]
    loops = of_runs(runs, "by_loop")
    return [
        _errors(
            "error_by_examples", "Error by number of examples", error, (axis, error), result["k"],
            [*of_runs(runs, "by_examples"), *solvers],
        ),
        Panel(
            "difference_by_examples", f"Error less that of {labels[first]}, paired by prompt", axis,
            f"{error}, less the first run's", result["k"], differences,
            levels={labels[first]: 0.0},
        ),
        _errors(
            "error_by_loop", f"{of_loops(error).capitalize()} by loop", error,
            ("loop (layer, for standard models)", by_loop_name(error, result["k"][-1])),
            _loops(loops), loops, levels=False,
        ),
    ]  # fmt: skip


def training_panels(records: Sequence[Mapping[str, Any]], kind: str) -> list[Panel]:
    """Loss by step (the line: a running mean; the band: least to largest of the log's lines there),
    and dims, points and loops where any of them changed; none where nothing was logged."""
    rows = [record for record in records if _number(record.get("loss")) is not None]
    if not rows:
        return []
    parts = np.array_split(np.arange(len(rows)), min(len(rows), _MOST))
    groups = [[rows[i] for i in part] for part in parts]
    smooth = smoothed([float(row["loss"]) for row in rows], max(0.0, 1 - _WINDOW / len(rows)))
    losses = [[float(row["loss"]) for row in group] for group in groups]
    x = [float(group[-1]["step"]) for group in groups]
    loss: Band = {
        "mean": [float(smooth[part[-1]]) for part in parts],
        "low": [*map(min, losses)], "high": [*map(max, losses)],
    }  # fmt: skip
    panels = [
        Panel(
            "training", "Training loss (band: least to largest logged)", "step", "loss", x,
            [Curve.of("loss, running mean", kind, loss, name="loss")],
            log="y" if min(map(min, losses)) > 0 else "", picture="training",
        )
    ]  # fmt: skip
    growing = [
        Curve(
            label=name,
            kind=name,
            name=name,
            mean=[_number(group[-1].get(name)) for group in groups],
        )
        for name in ("loops", "dims", "points")
        if len({row.get(name) for row in rows}) > 1
    ]
    if growing:
        what = "What grows with the step"
        panels.append(Panel("curriculum", what, "step", "number", x, growing, picture="training"))
    return panels


def _errors(
    name: str, title: str, error: str, axes: tuple[str, str], x: Sequence[float],
    drawn: Sequence[Curve], *, levels: bool = True,
) -> Panel:  # fmt: skip
    """A panel of errors: rates from 0, nats as they are, all others on a log scale; with the level
    of guessing, or of predicting zero, where that is on the axis."""
    return Panel(
        name, title, *axes, list(x), drawn, log="" if error in _LINEAR else "y",
        limits=(0 if error == ERROR_RATE else None, None),
        levels=_LEVELS.get(error, {"predicting zero": 1.0}) if levels else {},
    )  # fmt: skip


def _loops(drawn: Sequence[Curve]) -> list[float]:
    """The loops of curves by loop, from 1 to the last of the longest."""
    return list(range(1, max(len(curve.mean) for curve in drawn) + 1))


def _last_query(result: Evaluation) -> str:
    return by_loop_name(result["error"], result["by_examples"]["k"][-1])


def _number(value: Any) -> float | None:
    """A finite number of a log; None for anything else."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
