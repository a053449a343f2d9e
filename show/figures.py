"""The panels of an evaluation, of a comparison and of a training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from looplab.conf.in_words import task_in_words
from looplab.curricula import Curriculum, SampledLoops, Schedule
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import (
    AboveOptimal,
    Bands,
    Evaluation,
    Labels,
    OfTask,
    ShiftErrors,
)
from looplab.evaluation.plain import Content
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

# The names of an evaluation's pictures but those of shifted inputs, which begin with `shift`.
EVALUATION_PANELS = (
    "error_by_examples",
    "error_by_loop",
    "above_optimal",
    "change_by_loop",
    "halting",
)
_MOST_POINTS = 120  # of a training's curve; more lines of a log are averaged
_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_STATE_CHANGE = "state: ‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖"
_PREDICTION_CHANGE = "prediction: |ŷₜ − ŷₜ₋₁| / std of y"
_FAR = 3  # times the highest error of the model or of predicting zero: the end of a shift's axis


def model_label(family: str, loops: int | str) -> str:
    """'looped, 12 loops', 'standard, 12 layers', or 'looped, early exit'."""
    if loops == "auto":
        return f"{family}, early exit"
    return f"{family}, {loops} {unit(family)}{'s' if int(loops) != 1 else ''}"


def run_labels(result: Comparison) -> dict[str, str]:
    """A label for each run of a comparison: that of its curve, the loops or layers that it is read
    at, and its seed where the curve is of several."""
    labels = dict[str, str]()
    for label, curve in result.curves.items():
        for name in curve.runs:
            run = result.runs[name]
            count = model_label(run.family, run.loops).removeprefix(run.family)
            seed = f", seed {run.seed}" if len(curve.runs) > 1 else ""
            labels[name] = f"{label}{count}{seed}"
    return labels


def models(result: Evaluation, bands: Bands) -> list[Curve]:
    """The model's curves in one part of a result: at b loops, and at the others that this
    evaluation read it at."""
    loops: dict[str, int | str] = {"model_at_b": result.b}
    if result.loops != result.b:
        loops["model"] = result.loops
    curves = []
    for name, count in loops.items():
        label = f"{model_label(result.family, count)}{normalised_words(result)}"
        curves.append(Curve.of(label, result.style, bands[name], name=name))
    return curves


def solvers(labels: Labels, bands: Bands) -> list[Curve]:
    """The solvers' curves in one part of a result."""
    return [
        Curve.of(label, name, bands[name], name=name, solver=True) for name, label in labels.items()
    ]


def curves(result: Evaluation) -> list[Curve]:
    """All curves by number of examples in the legend's order: the model's, then the solvers'."""
    bands = result.by_examples.bands
    return models(result, bands) + solvers(result.labels, bands)


def published_curve(entry: Content) -> Curve:
    """A printed curve beside a run's."""
    return Curve(
        label=f"published: {entry['label']}",
        kind="published",
        mean=entry.get("mean") or (),
        low=entry.get("low") or (),
        high=entry.get("high") or (),
        name=f"published_{entry['name']}",
        solver=True,
    )


def title(result: OfTask) -> str:
    """What the functions of an evaluation, or of a comparison, are."""
    dims = 0 if result.error == NATS else result.dims
    # Of sparse functions, whose weights are standard normal, the variance of y is the sparsity.
    words = task_in_words(result.task, dims, result.divisor)
    return f"{words}{normalised_words(result)}"


def evaluation_panels(result: Evaluation | Content) -> list[Panel]:
    """Errors by examples, by loop, above the optimum and on shifted inputs; changes by loop, and
    what early exit saves.

    Beside ours stand the published models; a solver's published curve only where it is not ours, on
    which it would lie.
    """
    if isinstance(result, Mapping):  # what `evaluate` returns
        result = Evaluation.read(result)
    panels = [_by_examples(result), _by_loop(result)]
    if result.above_optimal:
        panels.append(_above_optimal(result, result.above_optimal))
    if len(result.by_loop.loop) > 1:
        panels += [_changes(result), _early_exit(result)]
    return panels + _shifts(result)


def _by_examples(result: Evaluation) -> Panel:
    drawn = curves(result)
    names = [curve.name for curve in drawn if curve.solver]
    for entry in result.published:
        if entry["name"] not in names:
            drawn.append(published_curve(entry))
    return by_examples("error_by_examples", title(result), result.error, drawn, named=result.named)


def _above_optimal(result: Evaluation, above: AboveOptimal) -> Panel:
    optimum = result.labels[above.over]
    return Panel(
        "above_optimal",
        f"Error above {optimum}, bands of the paired difference",
        examples_name(result.error),
        f"{result.error}, above the optimum's",
        result.by_examples.k,
        models(result, above.bands),
        levels={optimum: 0.0},
    )


def _by_loop(result: Evaluation) -> Panel:
    name = unit(result.family)
    near = result.by_loop.near_least
    first = f"first within {near.within:.0%} of the least"
    mark = Curve(
        label=first,
        kind="median",
        mean=[result.by_loop.model["mean"][near.loop - 1]],
        x=[near.loop],
        points=True,
        name="near_least",
    )
    errors = of_loops(result.error).capitalize()
    interval = f"{near.loop} ({near.low:g} to {near.high:g})"
    return by_loop(
        "error_by_loop",
        f"{errors} by {name}, {first} at {name} {interval}",
        result.error,
        [_of_loops(result.family, result, "model"), mark],
        [result.family == "standard"],
        _last_query(result),
    )


def _changes(result: Evaluation) -> Panel:
    name = unit(result.family)
    place = "mean" if result.error == NATS else "last query"
    drawn = []
    for on, label, change in (
        ("state", _STATE_CHANGE, result.by_loop.state_change),
        ("prediction", _PREDICTION_CHANGE, result.by_loop.prediction_change),
    ):
        drawn.append(Curve.of(label, on, change, name=on, b=result.b))
    return Panel(
        "change_by_loop",
        f"Change over one {name}",
        name,
        f"change over one {name}, {place}",
        result.by_loop.loop,
        drawn,
        log="y",
    )


def _early_exit(result: Evaluation) -> Panel:
    name = unit(result.family)
    halting = result.halting
    same = f"the same {name}s for all prompts"
    drawn = [Curve.of(same, result.style, result.by_loop.model, name="all")]
    for on, exits in (("state", halting.state), ("prediction", halting.prediction)):
        label = f"early exit on the {on}'s change"
        drawn.append(Curve.of(label, on, exits.error, name=on, x=exits.loops["mean"]))
    tolerances = f"{halting.tolerance[0]:g} to {halting.tolerance[-1]:g}"
    return errors_panel(
        "halting",
        f"Error against {name}s used with early exit",
        result.error,
        (f"mean {name}s used (dots: tolerances {tolerances})", _last_query(result)),
        result.by_loop.loop,
        drawn,
    )


def _shifts(result: Evaluation) -> list[Panel]:
    """The errors on all shifted inputs by loop, and those on each by number of examples: over the
    variance of y in training, and over that on these inputs."""
    if not result.shifts:
        return []
    panels = _shifts_in(unit_of_shifts(result.error), result, result.shifts, "")
    if result.error == SQUARED_ERROR:
        shifts = {name: in_own_unit(shift) for name, shift in result.shifts.items()}
        panels += _shifts_in(ON_THESE_INPUTS, result, shifts, "_own_unit")
    return panels


def _shifts_in(
    y_label: str, result: Evaluation, shifts: Mapping[str, ShiftErrors], suffix: str
) -> list[Panel]:
    """These panels of errors in one unit; their names end in `suffix`."""
    drawn = [_of_loops("inputs as in training", result, "trained")]
    for key, shift in shifts.items():
        drawn.append(Curve.of(shift.label, "shift", shift.by_loop, name=key))
    overview = by_loop(
        f"shifts_by_loop{suffix}",
        f"The last query's error on shifted inputs, by {unit(result.family)}",
        result.error,
        drawn,
        [result.family == "standard"],
        y_label,
    )
    panels = [overview]
    for key, shift in shifts.items():
        model_curves = models(result, shift.bands)
        panel = by_examples(
            f"shift_{key}{suffix}",
            shift.label,
            result.error,
            model_curves + solvers(shift.labels, shift.bands),
            named=result.named,
            levels={ZERO: shift.zero},
            y_label=y_label,
        )
        # Solvers that diverge are cut off, and the model is not.
        highs = [high for curve in model_curves for high in curve.high if high is not None]
        # One more number for `max`: the error of predicting zero is always there.
        limits = (None, _FAR * max(shift.zero, *highs))
        panels.append(replace(panel, limits=limits, picture=f"shifts{suffix}"))
    return panels


def comparison_panels(result: Comparison) -> list[Panel]:
    """Errors by examples, less the first curve's, and by loop: a curve for the seeds of runs that
    differ in nothing else."""
    errors = list[Curve]()
    differences = list[Curve]()
    loops = list[Curve]()
    for label, curve in result.curves.items():
        errors.append(Curve.of(label, curve.style, curve.by_examples))
        if differences:
            differences.append(Curve.of(label, curve.style, curve.minus_first))
        else:
            # Of the first nothing is drawn, so that the others have their colours here too.
            differences.append(Curve(label="", kind=curve.style, mean=[]))
        loops.append(Curve.of(label, curve.style, curve.by_loop, b=curve.b))
    error = result.error
    first = next(iter(result.curves))
    # All runs have the same prompts, and so the same solvers.
    shared = next(iter(result.runs.values())).by_examples
    errors += solvers(result.labels, shared.bands)
    difference = Panel(
        "difference_by_examples",
        f"Error less that of {first}, paired by prompt",
        examples_name(error),
        f"{error}, less that of {first}",
        shared.k,
        differences,
        levels={first: 0.0},
    )
    last = by_loop(
        "error_by_loop",
        f"{of_loops(error).capitalize()} by loop",
        error,
        loops,
        {run.family == "standard" for run in result.runs.values()},
        by_loop_name(error, shared.k[-1]),
    )
    return [
        by_examples("error_by_examples", title(result), error, errors, named=result.named),
        difference,
        last,
    ]


def training_panels(
    records: Sequence[Content], kind: str, curriculum: Curriculum, text: bool = False
) -> list[Panel]:
    """Loss by step, the errors that were measured during training, and what the curriculum changes;
    none where nothing was logged. The points of a `text` are tokens."""
    steps, losses = _logged(records, "loss")
    if not steps:
        return []
    panels = [_training_loss(steps, losses, kind, curriculum, text)]
    for name in ("error", "bits_per_byte"):
        measured_at, values = _logged(records, name)
        if not measured_at:
            continue
        label = name.replace("_", " ")
        panel = Panel(
            name,
            f"{label.capitalize()} on the prompts of evaluation",
            "step",
            label,
            measured_at,
            [Curve(label=label, kind=kind, name=name, mean=values)],
            log="y",
            picture="training",
        )
        panels.append(panel)
    return panels + _schedule(curriculum, int(steps[-1]), text)


def _logged(records: Sequence[Content], name: str) -> tuple[list[float], list[float]]:
    """The steps at which a log has a finite number of this name, and these numbers."""
    steps = list[float]()
    values = list[float]()
    for record in records:
        value = record.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            steps.append(float(record["step"]))
            values.append(value)
    return steps, values


def _training_loss(
    steps: Sequence[float], values: Sequence[float], kind: str, curriculum: Curriculum, text: bool
) -> Panel:
    """Loss by step (the line: a running mean; the band: least to largest of the log's lines there),
    with marks where dimensions are added."""
    losses = np.array(values, dtype=np.float64)
    # A running mean's weights reach back over 1 / (1 - decay) values.
    # Below _WINDOW values nothing is smoothed.
    smooth = smoothed(losses, max(0.0, 1 - _WINDOW / len(losses)))
    x = list[float]()
    band: Band = {"mean": [], "low": [], "high": []}
    for rows in np.array_split(np.arange(len(losses)), min(len(losses), _MOST_POINTS)):
        x.append(steps[rows[-1]])
        band["mean"].append(float(smooth[rows[-1]]))
        band["low"].append(float(losses[rows].min()))
        band["high"].append(float(losses[rows].max()))
    marks = {}
    changes = curriculum.dims.changes(int(x[-1]))
    if changes:
        # The log counts steps from 1, a curriculum from 0.
        marks["a dimension is added"] = [step + 1.0 for step in changes]
    return Panel(
        "training",
        "Training loss (band: least to largest logged)",
        "step",
        f"loss, {NATS}" if text else "loss",
        x,
        [Curve.of("loss, running mean", kind, band, name="loss")],
        log="y" if losses.min() > 0 else "",
        picture="training",
        marks=marks,
    )


def _schedule(curriculum: Curriculum, steps: int, text: bool) -> list[Panel]:
    """The numbers that the curriculum changes within so many steps, exact at each step of x; of
    drawn loops the mean and the ends. None where nothing changes."""
    loops = curriculum.loops
    schedules: dict[str, Schedule] = {"dims": curriculum.dims, "points": curriculum.points}
    # Loops that are drawn at each step are no function of it.
    if not isinstance(loops, SampledLoops):
        schedules = {"loops": loops} | schedules
    schedules = {name: s for name, s in schedules.items() if s.changes(steps)}
    ends = {1, steps}
    # Schedules are steps: the last step before a change and the first after it draw the edge.
    for schedule in schedules.values():
        for step in schedule.changes(steps):
            ends |= {step, step + 1}
    x = sorted(ends)
    drawn = []
    if isinstance(loops, SampledLoops):
        band: Band = {
            "mean": [loops.b] * len(x),
            "low": [loops.least] * len(x),
            "high": [loops.end] * len(x),
        }
        drawn.append(Curve(label="loops, drawn", kind="loops", name="loops", **band))
    for name, schedule in schedules.items():
        label = "tokens" if text and name == "points" else name
        mean = [schedule(step - 1) for step in x]
        drawn.append(Curve(label=label, kind=name, name=name, mean=mean))
    if not drawn:
        return []
    return [Panel("curriculum", "The curriculum", "step", "number", x, drawn, picture="training")]


def _of_loops(label: str, result: Evaluation, name: str) -> Curve:
    """A model's errors by loop, with a mark at its b."""
    return Curve.of(label, result.style, result.by_loop.model, name=name, b=result.b)


def _last_query(result: Evaluation) -> str:
    return by_loop_name(result.error, result.by_examples.k[-1])
