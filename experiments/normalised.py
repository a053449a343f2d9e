"""Shifted inputs in the prompt's own units: what these repair, and what they cost in
distribution."""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import measured, resolved
from looplab.evaluation.measure import Measure, shift_names
from looplab.evaluation.panel import Curve, Panel
from looplab.evaluation.results import ON_THESE_INPUTS, ZERO, examples_name
from looplab.tasks import SHIFTS, Shifted
from looplab.tasks.shift import Covariance, ScaledFunction, ScaledInputs
from looplab.training.run_folder.run import Run

from .claims import SUITE, Estimate, Evidence
from .evidence import measured_groups
from .measuring import SeedGroup, band, band_of, estimate, grouped, ratio

TRAINING = "training"  # the inputs of training, beside the shifts
_KINDS = {"none": "", "scale": ", scaled", "whiten": ", whitened"}
_SOLVERS = ("least_squares", "ridge")
_DRAWN = (TRAINING, "skewed_covariance", "half_subspace", "scaled_x_3")  # by examples
_TIMES_RIDGE = 2.0  # an error that is still of ridge's size


class _Found(NamedTuple):
    """Errors over the variance of y on their own inputs, by input and then by how prompts are read
    [seeds, prompts, k] or by solver [1, prompts, k]; and the solvers' labels."""

    errors: Mapping[str, Mapping[str, Floats]]
    labels: Mapping[str, str]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Errors at b on `settings.prompts` prompts of training and of each of `settings.shifts`.

    Each of the `groups`, one for each model and d, has for each way to read prompts (`none`,
    `scale`, `whiten`) its `cost` in distribution, the error by k over that of prompts as they are.
    By shift it has what the shift changes (`scale`, `covariance`, `neither`), and two ratios of
    mean errors over k from 1 on: `over_training`, to the inputs of training, and `over_ridge`.
    Errors are over the variance of y on the same inputs.
    """
    groups, by_dims = [], dict[int, list[tuple[SeedGroup, _Found]]]()
    for group in grouped(runs):
        found = _errors(group, settings)
        by_dims.setdefault(group.task.dims, []).append((group, found))
        about = {"label": group.label, "family": group.family, "dims": group.task.dims}
        as_is = found.errors[TRAINING]["none"]
        cost = {
            kind: [ratio(found.errors[TRAINING][kind][..., k], as_is[..., k], settings)
                   for k in range(as_is.shape[-1])]
            for kind in _KINDS if kind != "none"
        }  # fmt: skip
        shifts = {name: _of_shift(name, found, settings) for name in shift_names(settings)}
        groups.append({**about, "cost": cost, "shifts": shifts})
    panels = []
    for dims, same in sorted(by_dims.items()):
        own = [each for each in groups if each["dims"] == dims]
        panels += _panels(dims, same, own, settings)
    return {"groups": groups, "panels": panels}


def kind_of_shift(name: str) -> str:
    """What a shift changes: the `scale` of x or y, the `covariance` of x, or `neither`."""
    if isinstance(SHIFTS[name], ScaledInputs | ScaledFunction):
        return "scale"
    return "covariance" if isinstance(SHIFTS[name], Covariance) else "neither"


def _errors(group: SeedGroup, settings: EvaluationConfig) -> _Found:
    run, names = group.runs[0], shift_names(settings)
    measure = Measure(run, resolved(run, settings))
    inputs: dict[str, Shifted | None] = {TRAINING: None}
    inputs |= {name: measure.shifted(name) for name in names}
    ys = measure.prompts.ys.double()
    in_training = ys.square().mean().item() / run.task.divisor
    units = {name: shifted.zero if shifted else in_training for name, shifted in inputs.items()}
    errors: dict[str, dict[str, Floats]] = {name: {} for name in inputs}
    for kind in _KINDS:
        asked = EvaluationConfig(**{**vars(settings), "normalise": kind})
        of_seeds = [measured(each, asked)[1] for each in group.runs]
        for name, unit in units.items():
            key = "model_at_b" if name == TRAINING else f"{name}/model_at_b"
            seeds = np.stack([arrays[key] for arrays in of_seeds])
            errors[name][kind] = seeds.astype(np.float64) / unit
    labels = dict[str, str]()
    for solver in _SOLVERS:
        for name, shifted in inputs.items():
            label, values = measure.baseline(solver, shifted)
            labels.setdefault(solver, label)
            errors[name][solver] = values[None] / units[name]
    return _Found(errors, labels)


def _of_shift(name: str, found: _Found, settings: EvaluationConfig) -> dict[str, Any]:
    own, training = found.errors[name], found.errors[TRAINING]
    ridge = own["ridge"][..., 1:].mean(-1)
    over_training, over_ridge = dict[str, Estimate](), dict[str, Estimate]()
    for kind in _KINDS:
        count = own[kind].shape[-1]  # an orthogonal query has at most d examples before it
        # Without examples there is no scale.
        shifted, plain = own[kind][..., 1:].mean(-1), training[kind][..., 1:count].mean(-1)
        both = np.stack([shifted, plain], axis=-1)
        over_training[kind] = estimate([both], settings, _first_over_second, log=True)
        over_ridge[kind] = ratio(shifted, ridge, settings, trained=[True, False])
    return {
        "kind": kind_of_shift(name),
        "over_training": over_training,
        "over_ridge": over_ridge,
    }


def _first_over_second(means: Sequence[Floats]) -> Floats:
    return np.asarray(means[0][..., 0] / means[0][..., 1])


def _panels(
    dims: int,
    same: Sequence[tuple[SeedGroup, _Found]],
    groups: Sequence[Mapping[str, Any]],
    settings: EvaluationConfig,
) -> list[Panel]:
    """The panels of the models of one d: errors by examples, the cost in distribution, and all
    shifts."""
    panels = []
    shifts = shift_names(settings)
    for name in (each for each in _DRAWN if each in same[0][1].errors):
        curves = []
        for group, found in same:
            for kind in ("none", "whiten"):
                label = f"{group.family}{_KINDS[kind]}"
                values = band([found.errors[name][kind]], settings)
                curves.append(Curve.of(label, label, values))
        solvers = same[0][1]
        for solver in _SOLVERS:
            values = band([solvers.errors[name][solver]], settings)
            label = solvers.labels[solver]
            curves.append(Curve.of(label, solver, values, name=solver, solver=True))
        what = "inputs as in training" if name == TRAINING else SHIFTS[name].label
        axes = (examples_name(ON_THESE_INPUTS), ON_THESE_INPUTS)
        ks = range(len(curves[0].mean))
        panels.append(
            Panel(
                f"normalised-{dims}-{name}", f"{what}, d = {dims}", *axes, ks, curves, log="y",
                levels={ZERO: 1.0}, picture=f"normalised-by-examples-{dims}",
            )
        )  # fmt: skip
    costs, ratios = [], []
    for (group, _), own in zip(same, groups, strict=True):
        for kind in ("scale", "whiten"):
            label = f"{group.family}{_KINDS[kind]}"
            costs.append(Curve.of(label, label, band_of(own["cost"][kind])))
        for kind in ("none", "whiten"):
            label = f"{group.family}{_KINDS[kind]}"
            over_training = [own["shifts"][name]["over_training"][kind] for name in shifts]
            ratios.append(Curve.of(label, label, band_of(over_training), points=True))
    count = len(costs[0].mean)
    as_is = "error over that of prompts as they are"
    panels.append(
        Panel(
            f"normalised-cost-{dims}", f"inputs as in training, d = {dims}",
            examples_name(as_is), as_is, range(count), costs, levels={"no cost": 1.0},
            picture="normalised-cost",
        )
    )  # fmt: skip
    over = "error over that in training, each over its own variance of y"
    labels = [SHIFTS[name].label for name in shifts]
    panels.append(
        Panel(
            f"normalised-shifts-{dims}", f"all shifts, d = {dims}", "shifted inputs", over,
            range(len(shifts)), ratios, log="y", levels={"as in training": 1.0}, x_names=labels,
            picture="normalised-shifts",
        )
    )  # fmt: skip
    return panels


def _whitened_over_ridge(evidence: Evidence, family: str, shift: str) -> Estimate:
    """The largest over d."""
    found = measured_groups(evidence, "normalised", family=family)
    evidence.where(family=family)
    ratios = [Estimate.read(each["shifts"][shift]["over_ridge"]["whiten"]) for each in found]
    return max(ratios, key=attrgetter("high"))


_INPUTS = {
    "skewed_covariance": "inputs of skewed covariance",
    "half_subspace": "inputs from half of the dimensions",
}
for _family in ("looped", "standard"):
    for _shift, _words in _INPUTS.items():
        SUITE.claim(
            f"normalised_{_family}_{_shift}",
            f"On {_words} a {_family} model that reads whitened prompts errs at most twice as much "
            "as ridge regression.",
            figure="after section 6 of arXiv 2311.12424",
            quantity="mean error over one and more examples, whitened over ridge, the largest over "
            "d",
            below=_TIMES_RIDGE,
        )(partial(_whitened_over_ridge, family=_family, shift=_shift))
