"""The panels of an evaluation, of a comparison and of a training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.conf.in_words import task_in_words
from looplab.curricula import Curriculum, SampledLoops, Schedule
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import Bands, Evaluation, Labels, OfTask, Shift
from looplab.evaluation.results import (
    NATS,
    ON_THESE_INPUTS,
    SQUARED_ERROR,
    ZERO,
    by_loop_name,
    examples_name,
    in_own_unit,
    normalised_words,
    of_loops,
    unit,
    unit_of_shifts,
)
from looplab.training.run_folder.metrics import smoothed

from .builders import by_examples, by_loop, errors_panel
from .panel import Curve, Panel

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


def run_labels(result: Comparison) -> dict[str, str]:
    """A label for each run of a comparison: that of its curve, the loops or layers that it is read
    at, and its seed where the curve is of several."""
    labels = dict[str, str]()
    for label, of in result.curves.items():
        for name in of.runs:
            run = result.runs[name]
            count = model_label(run.family, run.loops).removeprefix(run.family)
            seed = f", seed {run.seed}" if len(of.runs) > 1 else ""
            labels[name] = f"{label}{count}{seed}"
    return labels


def models(result: Evaluation, bands: Bands) -> list[Curve]:
    """The model's curves in one part of a result: at b loops, and at the others that this
    evaluation read it at."""
    loops: dict[str, int | str] = {"model_at_b": result.b}
    if result.loops != result.b:
        loops["model"] = result.loops
    return [
        Curve.of(
            f"{model_label(result.family, each)}{normalised_words(result)}",
            result.style,
            bands[name],
            name=name,
        )
        for name, each in loops.items()
    ]


def solvers(labels: Labels, bands: Bands) -> list[Curve]:
    """The solvers' curves in one part of a result."""
    return [
        Curve.of(label, name, bands[name], name=name, solver=True) for name, label in labels.items()
    ]


def curves(result: Evaluation) -> list[Curve]:
    """All curves by number of examples in the legend's order: the model's, then the solvers'."""
    bands = result.by_examples.bands
    return [*models(result, bands), *solvers(result.labels, bands)]


def published_curve(entry: Mapping[str, Any]) -> Curve:
    """A printed curve beside a run's."""
    parts: dict[str, Any] = {part: entry.get(part) or () for part in ("mean", "low", "high")}
    label, name = f"published: {entry['label']}", f"published_{entry['name']}"
    return Curve(label=label, kind="published", name=name, solver=True, **parts)


def title(result: OfTask) -> str:
    """What the functions of an evaluation, or of a comparison, are."""
    dims = 0 if result.error == NATS else result.dims
    # Of sparse functions, whose weights are standard normal, the variance of y is the sparsity.
    words = task_in_words(result.task, dims, result.divisor)
    return f"{words}{normalised_words(result)}"


def evaluation_panels(result: Evaluation | Mapping[str, Any]) -> list[Panel]:
    """Errors by examples, by loop, above the optimum and on shifted inputs; changes by loop, and
    what early exit saves. Beside ours stand the published models; a solver's published curve only
    where it is not ours, on which it would lie."""
    if isinstance(result, Mapping):  # what `evaluate` returns
        result = Evaluation.read(result)
    error, k = result.error, result.by_examples.k
    drawn = curves(result)
    known = {curve.name for curve in drawn if curve.solver}
    others = [each for each in result.published if each["name"] not in known]
    drawn += map(published_curve, others)
    panels = [
        by_examples("error_by_examples", title(result), error, drawn, named=result.named),
        _by_loop(result),
    ]
    if above := result.above_optimal:
        optimum = result.labels[above.over]
        panels.append(
            Panel(
                "above_optimal", f"Error above {optimum}, bands of the paired difference",
                examples_name(error), f"{error}, above the optimum's", k,
                models(result, above.bands), levels={optimum: 0.0},
            )
        )  # fmt: skip
    if len(result.by_loop.loop) > 1:
        panels += [_changes(result), _early_exit(result)]
    return [*panels, *_shifts(result)]


def _by_loop(result: Evaluation) -> Panel:
    name = unit(result.family)
    near, what = result.by_loop.near_least, of_loops(result.error).capitalize()
    first = f"first within {near.within:.0%} of the least"
    height = result.by_loop.model["mean"][near.loop - 1]
    mark = Curve(
        label=first, kind="median", mean=[height], x=[near.loop], points=True, name="near_least"
    )
    text = f"{near.loop} ({near.low:g} to {near.high:g})"
    drawn = [_of_loops(result.family, result, "model"), mark]
    return by_loop(
        "error_by_loop", f"{what} by {name}, {first} at {name} {text}", result.error, drawn,
        [result.family == "standard"], _last_query(result),
    )  # fmt: skip


def _changes(result: Evaluation) -> Panel:
    by_loop, name = result.by_loop, unit(result.family)
    of = "mean" if result.error == NATS else "last query"
    changes = (by_loop.state_change, by_loop.prediction_change)
    drawn = [
        Curve.of(label, on, change, name=on, b=result.b)
        for (on, label), change in zip(_CHANGES.items(), changes, strict=True)
    ]
    return Panel(
        "change_by_loop", f"Change over one {name}", name, f"change over one {name}, {of}",
        by_loop.loop, drawn, log="y",
    )  # fmt: skip


def _early_exit(result: Evaluation) -> Panel:
    by_loop, halting, name = result.by_loop, result.halting, unit(result.family)
    first, last = (halting.tolerance[end] for end in (0, -1))
    same = f"the same {name}s for all prompts"
    drawn = [Curve.of(same, result.style, by_loop.model, name="all")]
    for on, exits in (("state", halting.state), ("prediction", halting.prediction)):
        label = f"early exit on the {on}'s change"
        drawn.append(Curve.of(label, on, exits.error, name=on, x=exits.loops["mean"]))
    return errors_panel(
        "halting", f"Error against {name}s used with early exit", result.error,
        (f"mean {name}s used (dots: tolerances {first:g} to {last:g})", _last_query(result)),
        by_loop.loop, drawn,
    )  # fmt: skip


def _shifts(result: Evaluation) -> list[Panel]:
    """The errors on all shifted inputs by loop, and those on each by number of examples: over the
    variance of y in training, and over that on these inputs."""
    shifts = result.shifts
    if not shifts:
        return []
    panels = _shifts_in(result, unit_of_shifts(result.error), "", shifts)
    if result.error == SQUARED_ERROR:
        own = {name: in_own_unit(shift) for name, shift in shifts.items()}
        panels += _shifts_in(result, ON_THESE_INPUTS, "_own_unit", own)
    return panels


def _shifts_in(
    result: Evaluation, name: str, suffix: str, shifts: Mapping[str, Shift]
) -> list[Panel]:
    """These panels of errors in the unit that `name` says; their names end in `suffix`."""
    error, loop = result.error, unit(result.family)
    drawn = [_of_loops("inputs as in training", result, "trained")]
    panels = []
    for key, shift in shifts.items():
        drawn.append(Curve.of(shift.label, "shift", shift.by_loop, name=key))
        of_model, of_zero = models(result, shift.bands), {ZERO: shift.zero}
        highs = [high for curve in of_model for high in curve.high if high is not None]
        panel = by_examples(
            f"shift_{key}{suffix}", shift.label, error,
            [*of_model, *solvers(shift.labels, shift.bands)],
            named=result.named, levels=of_zero, y_label=name,
        )  # fmt: skip
        limits = (None, 3 * max(shift.zero, *highs))
        panels.append(replace(panel, limits=limits, picture=f"shifts{suffix}"))
    first = by_loop(
        f"shifts_by_loop{suffix}", f"The last query's error on shifted inputs, by {loop}", error,
        drawn, [result.family == "standard"], name,
    )  # fmt: skip
    return [first, *panels]


def comparison_panels(result: Comparison) -> list[Panel]:
    """Errors by examples, less the first curve's, and by loop: a curve for the seeds of runs that
    differ in nothing else."""
    error, (first, *_) = result.error, result.curves
    part = next(iter(result.runs.values())).by_examples
    errors, differences, loops = list[Curve](), list[Curve](), list[Curve]()
    for label, of in result.curves.items():
        errors.append(Curve.of(label, of.style, of.by_examples))
        less = Curve.of(label, of.style, of.minus_first)
        # Of the first nothing is drawn, so that the others have their colours here too.
        nothing = Curve(label="", kind=of.style, mean=[])
        differences.append(less if differences else nothing)
        loops.append(Curve.of(label, of.style, of.by_loop, b=of.b))
    standard = {run.family == "standard" for run in result.runs.values()}
    drawn = [*errors, *solvers(result.labels, part.bands)]
    return [
        by_examples("error_by_examples", title(result), error, drawn, named=result.named),
        Panel(
            "difference_by_examples", f"Error less that of {first}, paired by prompt",
            examples_name(error), f"{error}, less that of {first}", part.k, differences,
            levels={first: 0.0},
        ),
        by_loop(
            "error_by_loop", f"{of_loops(error).capitalize()} by loop", error, loops, standard,
            by_loop_name(error, part.k[-1]),
        ),
    ]  # fmt: skip


def training_panels(
    records: Sequence[Mapping[str, Any]], kind: str, curriculum: Curriculum, text: bool = False
) -> list[Panel]:
    """Loss by step (the line: a running mean; the band: least to largest of the log's lines there),
    with marks where dimensions are added; and dims, points and loops, those that the curriculum
    changes; none where nothing was logged. The points of a `text` are tokens."""
    rows = [record for record in records if _number(record.get("loss")) is not None]
    if not rows:
        return []
    losses = np.array([row["loss"] for row in rows], dtype=np.float64)
    smooth = smoothed(losses, max(0.0, 1 - _WINDOW / len(rows)))
    parts = np.array_split(np.arange(len(rows)), min(len(rows), _MOST))
    ends = [part[-1] for part in parts]
    loss: Band = {
        "mean": [float(smooth[end]) for end in ends],
        "low": [float(losses[part].min()) for part in parts],
        "high": [float(losses[part].max()) for part in parts],
    }
    x = [float(rows[end]["step"]) for end in ends]
    steps = int(x[-1])
    added = [step + 1.0 for step in curriculum.dims.changes(steps)]
    panels = [
        Panel(
            "training", "Training loss (band: least to largest logged)", "step",
            f"loss, {NATS}" if text else "loss", x,
            [Curve.of("loss, running mean", kind, loss, name="loss")],
            log="y" if losses.min() > 0 else "", picture="training",
            marks={"a dimension is added": added} if added else {},
        )
    ]  # fmt: skip
    for name in ("error", "bits_per_byte"):
        if measured := [row for row in rows if _number(row.get(name)) is not None]:
            what, at = name.replace("_", " "), [float(row["step"]) for row in measured]
            title = f"{what.capitalize()} on the prompts of evaluation"
            means = [row[name] for row in measured]
            curve = Curve(label=what, kind=kind, name=name, mean=means)
            more: dict[str, Any] = {"log": "y", "picture": "training"}
            panels.append(Panel(name, title, "step", what, at, [curve], **more))
    return [*panels, *_schedule(curriculum, steps, text)]


def _schedule(curriculum: Curriculum, steps: int, text: bool) -> list[Panel]:
    """The numbers that the curriculum changes within so many steps, exact at each step of x; of
    drawn loops the mean and the ends. None where nothing changes."""
    loops = curriculum.loops
    drawn: dict[str, Schedule] = {"dims": curriculum.dims, "points": curriculum.points}
    if not isinstance(loops, SampledLoops):
        drawn = {"loops": loops, **drawn}
    changes = {name: of.changes(steps) for name, of in drawn.items()}
    x = sorted({1, steps}.union(*({step, step + 1} for of in changes.values() for step in of)))
    curves = [
        Curve(
            label="tokens" if text and name == "points" else name, kind=name, name=name,
            mean=[of(step - 1) for step in x],
        )
        for name, of in drawn.items() if changes[name]
    ]  # fmt: skip
    if isinstance(loops, SampledLoops):
        mean, low, high = ([end] * len(x) for end in (loops.b, loops.least, loops.end))
        band: dict[str, Any] = {"mean": mean, "low": low, "high": high}
        curves.insert(0, Curve(label="loops, drawn", kind="loops", name="loops", **band))
    title = "The curriculum"
    panel = Panel("curriculum", title, "step", "number", x, curves, picture="training")
    return [panel] if curves else []


def _of_loops(label: str, result: Evaluation, name: str) -> Curve:
    """A model's errors by loop, with a mark at its b."""
    by_loop = result.by_loop.model
    return Curve.of(label, result.style, by_loop, name=name, b=result.b)


def _last_query(result: Evaluation) -> str:
    return by_loop_name(result.error, result.by_examples.k[-1])


def _number(value: Any) -> float | None:
    """A finite number of a log; None for anything else."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
