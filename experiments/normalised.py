"""Shifted inputs in the prompt's own units: what these repair, and what they cost in
distribution."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluate_run import evaluated, resolved
from looplab.evaluation.evaluator import Evaluator, shift_names
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.results import ON_THESE_INPUTS, ZERO, examples_name
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel
from looplab.tasks import SHIFTS, Shifted
from looplab.tasks.shift import Covariance, ScaledFunction, ScaledInputs
from looplab.training.run_folder.run import Run

from .evidence import Evidence, groups_of_answer, highest
from .question import Result, band, estimate, paired_ratio, ratio

Kind = Literal["none", "scale", "whiten"]
TRAINING = "training"  # the inputs of training, beside the shifts
_READ: dict[Kind, str] = {"none": "as they are", "scale": "scaled", "whiten": "whitened"}
_SOLVERS = ("least_squares", "ridge")
_DRAWN = {  # by examples
    TRAINING: "inputs as in training",
    "skewed_covariance": "skewed covariance",
    "half_subspace": "d/2-dimensional subspace",
    "scaled_x_3": "x · 3",
}
_LIMITS = (0.02, 20.0)  # of ratios, whose intervals of few seeds reach further


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Errors at b on `settings.prompts` prompts of training and of each of `settings.shifts`.

    Each of the `groups`, one for each model and d, has for each way to read prompts (`none`,
    `scale`, `whiten`) its `cost` in distribution, the error by k over that of prompts as they are.
    By shift it has what the shift changes (`scale`, `covariance`, `neither`), and two ratios of
    mean errors over k from 1 on: `over_training`, to the inputs of training, and `over_ridge`. On
    the inputs that are drawn it has the `errors` by k, for each way to read and of `solvers`.
    Errors are over the variance of y on the same inputs.
    """
    groups = []
    for label, group in labelled(runs):
        errors, labels = _errors(group, settings)
        drawn = {name: _bands(errors[name], labels, settings) for name in _DRAWN if name in errors}
        training = errors.pop(TRAINING)
        cost = {}
        for kind in _READ:
            both = np.stack((training[kind], training["none"]), axis=-1)
            cost[kind] = band([both], settings, paired_ratio).to_json()
        shifts = {name: _of_shift(name, errors[name], training, settings) for name in errors}
        about = {"label": label, "family": group.family, "dims": group.runs[0].task.dims}
        groups.append(about | {"cost": cost, "shifts": shifts, "errors": drawn})
    return {"groups": groups}


def panels(result: Result) -> list[Panel]:
    """For each d the errors by examples, and what each shift makes of them."""
    by_name: dict[str, Panel] = {}
    all_curves: dict[str, dict[str, Curve]] = {}  # of a panel, by their names: solvers once
    for group in result["groups"]:
        for panel in _panels(group):
            by_name[panel.name] = panel
            curves = all_curves.setdefault(panel.name, {})
            curves |= {curve.name: curve for curve in panel.curves}
    return [
        replace(panel, curves=list(all_curves[name].values())) for name, panel in by_name.items()
    ]


def kind_of_shift(name: str) -> str:
    """What a shift changes: the `scale` of x or y, the `covariance` of x, or `neither`."""
    if isinstance(SHIFTS[name], ScaledInputs | ScaledFunction):
        return "scale"
    return "covariance" if isinstance(SHIFTS[name], Covariance) else "neither"


def _errors(
    group: Group[Run], settings: EvaluationConfig
) -> tuple[dict[str, dict[str, Floats]], dict[str, str]]:
    """By inputs, and then by how prompts are read [seeds, prompts, k] or by solver [1, prompts, k],
    errors over the variance of y on these inputs; and the solvers' labels."""
    first = group.runs[0]
    evaluator = Evaluator(first, resolved(first, settings))
    inputs: dict[str, Shifted | None] = {TRAINING: None}
    inputs |= {name: evaluator.shifted(name) for name in shift_names(settings)}
    in_training = evaluator.prompts.ys.double().square().mean().item() / first.task.divisor
    arrays = {}  # of each seed
    for kind in _READ:
        reads = replace(settings, normalise=kind)
        arrays[kind] = [evaluated(run, reads)[1] for run in group.runs]
    errors: dict[str, dict[str, Floats]] = {}
    labels: dict[str, str] = {}
    for name, shifted in inputs.items():
        key = f"{name}/model_at_b" if shifted else "model_at_b"
        # The variance of y on these inputs: the error of predicting zero.
        unit = np.float64(shifted.zero if shifted else in_training)
        errors[name] = {}
        for kind, seeds in arrays.items():
            errors[name][kind] = np.stack([seed[key] for seed in seeds]) / unit
        for solver in _SOLVERS:
            label, values = evaluator.baseline(solver, shifted)
            labels.setdefault(solver, label)
            errors[name][solver] = values[None] / unit
    return errors, labels


def _bands(
    errors: Mapping[str, Floats], labels: Mapping[str, str], settings: EvaluationConfig
) -> Result:
    """Errors by examples for each way to read prompts, and of the `solvers`, with their labels."""
    bands: Result = {name: band([values], settings) for name, values in errors.items()}
    solvers = {name: {"label": label, "band": bands.pop(name)} for name, label in labels.items()}
    return bands | {"solvers": solvers}


def _of_shift(
    name: str,
    errors: Mapping[str, Floats],
    training: Mapping[str, Floats],
    settings: EvaluationConfig,
) -> Result:
    """What the shift of this name changes, and its two ratios for each way to read prompts, from
    the errors on its inputs and on those of training."""
    over_training: dict[str, Estimate] = {}
    over_ridge: dict[str, Estimate] = {}
    for kind in _READ:
        count = errors[kind].shape[-1]  # an orthogonal query has at most d examples before it
        some = slice(1, count)  # without examples there is no scale
        shifted = errors[kind][..., some].mean(-1)
        both = np.stack((shifted, training[kind][..., some].mean(-1)), axis=-1)
        ridge = errors["ridge"][..., some].mean(-1)
        over_training[kind] = estimate([both], settings, paired_ratio, log=True)
        over_ridge[kind] = ratio(shifted, ridge, settings, trained=[True, False])
    ratios = {"over_training": over_training, "over_ridge": over_ridge}
    return {"kind": kind_of_shift(name)} | ratios


def _panels(group: Result) -> Iterator[Panel]:
    """A group's curves in the panels of its d: errors by examples, and all shifts."""
    family = group["family"]
    dims = group["dims"]
    shifts = group["shifts"]
    read: dict[Kind, str] = {"none": family, "whiten": f"{family}, whitened"}
    axes = (examples_name(ON_THESE_INPUTS), ON_THESE_INPUTS)
    by_examples = partial(
        Panel, log="y", levels={ZERO: 1.0}, picture=f"normalised-by-examples-{dims}"
    )
    for name, errors in group["errors"].items():
        curves = [Curve.of(label, family, errors[way]) for way, label in read.items()]
        for kind, solver in errors["solvers"].items():
            curves.append(Curve.of(solver["label"], kind, solver["band"], name=kind, solver=True))
        title = f"{_DRAWN[name]}, d = {dims}"
        examples = range(len(curves[0].mean))
        yield by_examples(f"normalised-{dims}-{name}", title, *axes, examples, curves)
    by_shift = partial(
        Panel,
        log="y",
        limits=_LIMITS,
        levels={"as in training": 1.0},
        x_names=[SHIFTS[name].label for name in shifts],
        picture=f"normalised-shifts-{dims}",
    )
    for way in read:
        points: Any = {}
        for end in Interval._fields:
            points[end] = [shift["over_training"][way][end] for shift in shifts.values()]
        curve = Curve.of(family, family, points, points=True)
        name = f"normalised-shifts-{dims}-{way}"
        title = f"d = {dims}, prompts {_READ[way]}"
        x = range(len(shifts))
        yield by_shift(name, title, "", "error over that in training", x, [curve])


def whitened_over_ridge(evidence: Evidence, family: str, shift: str) -> Estimate:
    """The mean error of whitened prompts over that of ridge regression, the largest over d."""
    groups = groups_of_answer(evidence, "normalised", family=family)
    evidence.where(family=family)
    by_dims = [group["shifts"][shift]["over_ridge"]["whiten"] for group in groups]
    return highest(map(Estimate.read, by_dims))
