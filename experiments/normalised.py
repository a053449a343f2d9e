"""Shifted inputs in the prompt's own units: what these repair, and what they cost in
distribution."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluate_run import measured, resolved
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.measure import Measure, shift_names
from looplab.evaluation.results import ON_THESE_INPUTS, ZERO, examples_name
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel
from looplab.tasks import SHIFTS, Shifted
from looplab.tasks.shift import Covariance, ScaledFunction, ScaledInputs
from looplab.training.run_folder.run import Run

from .evidence import Evidence, measured_groups
from .measuring import band, estimate, ratio

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


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
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
            both = _paired(training[kind], training["none"])
            cost[kind] = band([both], settings, _ratio).to_json()
        about = {"label": label, "family": group.family, "dims": group.runs[0].task.dims}
        ratios = {name: _of_shift(name, own, training, settings) for name, own in errors.items()}
        groups.append({**about, "cost": cost, "shifts": ratios, "errors": drawn})
    return {"groups": groups}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """For each d the errors by examples, and what each shift makes of them."""
    pictures: dict[str, Panel] = {}
    for group in found["groups"]:
        for panel in _panels(group):
            known = pictures.get(panel.name)
            curves = [*known.curves, *panel.curves] if known else panel.curves
            own = {curve.name: curve for curve in curves}  # solvers once
            pictures[panel.name] = replace(panel, curves=[*own.values()])
    return [*pictures.values()]


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
    measure = Measure(group.runs[0], resolved(group.runs[0], settings))
    inputs: dict[str, Shifted | None] = {TRAINING: None}
    inputs |= {name: measure.shifted(name) for name in shift_names(settings)}
    in_training = measure.prompts.ys.double().square().mean().item() / group.runs[0].task.divisor
    evaluated = {
        kind: [measured(run, replace(settings, normalise=kind))[1] for run in group.runs]
        for kind in _READ
    }
    errors: dict[str, dict[str, Floats]] = {}
    labels: dict[str, str] = {}
    for name, shifted in inputs.items():
        own, prefix = dict[str, Floats](), f"{name}/" if shifted else ""
        for kind, arrays in evaluated.items():
            own[kind] = np.stack([each[f"{prefix}model_at_b"] for each in arrays])
        for solver in _SOLVERS:
            label, values = measure.baseline(solver, shifted)
            labels.setdefault(solver, label)
            own[solver] = values[None]
        unit = shifted.zero if shifted else in_training
        errors[name] = {of: values / np.float64(unit) for of, values in own.items()}
    return errors, labels


def _bands(
    errors: Mapping[str, Floats], labels: Mapping[str, str], settings: EvaluationConfig
) -> dict[str, Any]:
    """Errors by examples for each way to read prompts, and of the `solvers`, with their labels."""
    bands = {of: band([values], settings) for of, values in errors.items()}
    solvers = {
        solver: {"label": label, "band": bands.pop(solver)} for solver, label in labels.items()
    }
    return {**bands, "solvers": solvers}


def _of_shift(
    name: str,
    own: Mapping[str, Floats],
    training: Mapping[str, Floats],
    settings: EvaluationConfig,
) -> dict[str, Any]:
    over_training, over_ridge = dict[str, Estimate](), dict[str, Estimate]()
    for kind in _READ:
        count = own[kind].shape[-1]  # an orthogonal query has at most d examples before it
        # Without examples there is no scale.
        shifted, plain, ridge = (
            errors[..., 1:count].mean(-1) for errors in (own[kind], training[kind], own["ridge"])
        )
        over_training[kind] = estimate([_paired(shifted, plain)], settings, _ratio, log=True)
        over_ridge[kind] = ratio(shifted, ridge, settings, trained=[True, False])
    ratios = {"over_training": over_training, "over_ridge": over_ridge}
    return {"kind": kind_of_shift(name), **ratios}


def _paired(above: Floats, below: Floats) -> Floats:
    """Two errors of the same runs, of which `_ratio` takes the ratio of the means."""
    return np.stack((above, below), axis=-1)


def _ratio(means: Sequence[Floats]) -> Floats:
    return np.asarray(means[0][..., 0] / means[0][..., 1])


def _panels(group: Mapping[str, Any]) -> Iterator[Panel]:
    """A group's curves in the panels of its d: errors by examples, and all shifts."""
    family, dims, shifts = group["family"], group["dims"], group["shifts"]
    read: dict[Kind, str] = {"none": family, "whiten": f"{family}, whitened"}
    axes = (examples_name(ON_THESE_INPUTS), ON_THESE_INPUTS)
    for name, errors in group["errors"].items():
        curves = [Curve.of(label, family, errors[kind]) for kind, label in read.items()]
        for solver, own in errors["solvers"].items():
            curves.append(Curve.of(own["label"], solver, own["band"], name=solver, solver=True))
        yield Panel(
            f"normalised-{dims}-{name}", f"{_DRAWN[name]}, d = {dims}", *axes,
            range(len(curves[0].mean)), curves, log="y", levels={ZERO: 1.0},
            picture=f"normalised-by-examples-{dims}",
        )  # fmt: skip
    for kind in read:
        ratios = [each["over_training"][kind] for each in shifts.values()]
        over_training: Any = {part: [each[part] for each in ratios] for part in Interval._fields}
        yield Panel(
            f"normalised-shifts-{dims}-{kind}", f"d = {dims}, prompts {_READ[kind]}", "",
            "error over that in training", range(len(ratios)),
            [Curve.of(family, family, over_training, points=True)], log="y", limits=_LIMITS,
            levels={"as in training": 1.0}, x_names=[SHIFTS[name].label for name in shifts],
            picture=f"normalised-shifts-{dims}",
        )  # fmt: skip


def whitened_over_ridge(evidence: Evidence, family: str, shift: str) -> Estimate:
    """The mean error of whitened prompts over that of ridge regression, the largest over d."""
    groups = measured_groups(evidence, "normalised", family=family)
    evidence.where(family=family)
    by_dims = [group["shifts"][shift]["over_ridge"]["whiten"] for group in groups]
    return max(map(Estimate.read, by_dims), key=attrgetter("high"))
