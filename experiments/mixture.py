"""Models of several function classes, on prompts of each class beside models of that class alone,
and on sums of functions of all classes, of which training had none (arXiv 2311.00871).

result = measure(runs, EvaluationConfig(prompts=512))   # runs of task=mixture, and of its classes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks import Prompts, Task
from looplab.tasks.mixture import Mixture
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import both_families, measured_groups
from .measuring import (
    SQUARED_ERROR,
    SeedGroup,
    band,
    estimate,
    grouped,
    looped_over_standard,
    one_over_other,
    unrolled,
)

_SUMS = "sums of functions of all classes"
_YADLOWSKY = "arXiv 2311.00871"


class _Errors(NamedTuple):
    """The errors [seeds, prompts, points] at b of a group, by the functions of the prompts."""

    group: SeedGroup
    by_set: Mapping[str, Floats]

    def last(self, name: str) -> Floats:
        """Of the last query, [seeds, prompts]."""
        return self.by_set[name][..., -1]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Errors of each run on `settings.prompts` prompts of each class, and of their sums.
    ConfigError for runs of several mixtures or of none, and of a class that is no part of it.

    Each of the `groups` of the mixture has, by class, `errors` of the last query at b over the
    variance of y, and `over_alone`, this error over that of the runs of the same family that were
    trained on this class alone; `worst`, the largest of these ratios, None without such runs; and
    `sums`, the error on sums of functions of all classes over the mean of the classes'.
    `looped_over_standard` is the looped mixture's error over the standard one's, means over
    classes, None without both.
    """
    groups = grouped(runs)
    mixture = _mixture(groups)
    classes = dict(zip(mixture.mixed, mixture.parts, strict=True))
    tasks: dict[str, Task] = {name: replace(mixture, mixed=(name,)) for name in classes}
    tasks[_SUMS] = replace(mixture, combined=True)
    points = groups[0].config.task.points
    prompts = {
        name: evaluation_prompts(task, settings.prompts, points, settings.seed)
        for name, task in tasks.items()
    }
    mixed, alone = list[_Errors](), list[_Errors]()
    for group in groups:
        if isinstance(group.task, Mixture):
            by_set = {name: _errors(group, prompts[name], 1.0, settings) for name in tasks}
            mixed.append(_Errors(group, by_set))
        else:
            name = _class_of(group, classes)
            scale = classes[name].divisor ** 0.5  # the class's own outputs are not of variance 1
            by_set = {name: _errors(group, prompts[name], scale, settings)}
            alone.append(_Errors(group, by_set))
    means = {
        (each.group.family, "mixture"): np.mean([each.last(name) for name in classes], axis=0)
        for each in mixed
    }
    return {
        "prompts": settings.prompts,
        "groups": [_result(each, alone, list(classes), settings) for each in mixed],
        "looped_over_standard": looped_over_standard(means, settings).get("mixture"),
        "panels": [_panel(name, [*mixed, *alone], settings) for name in tasks],
    }


def _mixture(groups: Sequence[SeedGroup]) -> Mixture:
    """The one mixture that models were trained on."""
    found = {group.task for group in groups if isinstance(group.task, Mixture)}
    if len(found) != 1 or len({group.config.task.points for group in groups}) > 1:
        raise ConfigError("task", "must be one mixture, and its classes at the same task.points")
    return found.pop()


def _class_of(group: SeedGroup, classes: Mapping[str, Task]) -> str:
    task = group.task.for_evaluation()
    if classes.get(task.name) != task:
        raise ConfigError("task", f"cannot be {task.name} as set: it is no class of the mixture")
    return task.name


def _errors(group: SeedGroup, prompts: Prompts, scale: float, settings: EvaluationConfig) -> Floats:
    """Errors at b over the variance of y, for models that know outputs `scale` times as large."""
    models = unrolled(group, Prompts(prompts.xs, prompts.ys * scale), settings)[:, -1]
    return np.square(models / scale - prompts.ys.double().numpy())


def _result(
    own: _Errors, alone: Sequence[_Errors], classes: Sequence[str], settings: EvaluationConfig
) -> dict[str, Any]:
    family, positive = own.group.family, partial(estimate, settings=settings, log=True)
    beside = [each for each in alone if each.group.family == family]
    others = {name: each.last(name) for each in beside for name in each.by_set}

    def lasts(names: Iterable[str]) -> Floats:
        return np.stack([own.last(name) for name in names], axis=-1)

    def worst(means: Sequence[Floats]) -> Floats:
        return np.asarray((means[0] / np.stack(means[1:], axis=-1)).max(-1))

    def sums(means: Sequence[Floats]) -> Floats:
        return np.asarray(means[0][..., -1] / means[0][..., :-1].mean(-1))

    return {
        "label": own.group.label,
        "family": family,
        "errors": {name: positive([own.last(name)]) for name in classes},
        "over_alone": {
            name: positive([own.last(name), other], statistic=one_over_other)
            for name, other in others.items()
        },
        "worst": positive([lasts(others), *others.values()], statistic=worst) if others else None,
        "sums": positive([lasts([*classes, _SUMS])], statistic=sums),
    }


def _panel(name: str, errors: Sequence[_Errors], settings: EvaluationConfig) -> Panel:
    """Errors by examples on prompts of a class, or of the sums."""
    curves = []
    for group, by_set in errors:
        if name in by_set:
            of = "the mixture" if len(by_set) > 1 else "this class alone"
            label = f"{group.family}, trained on {of}"
            curves.append(Curve.of(label, group.family, band([by_set[name]], settings)))
    title = name if name == _SUMS else f"functions of class {name.replace('_', ' ')}"
    axes = ("in-context examples k", SQUARED_ERROR)
    x = range(len(curves[0].mean))
    return Panel(f"mixture-{file_name(name)}", title, *axes, x, curves, log="y")


@claim(
    "mixture_is_told_apart",
    "A looped model of several function classes is as good on each, at the last query, as a looped "
    "model of that class alone: it finds the class from the pairs.",
    source=f"{_YADLOWSKY}, section 3, for standard models; 2306.04891 for the selection",
    quantity="largest ratio over classes of its error to that of the model of the class alone",
    line=1.25,  # as for models that match elsewhere
    holds_if="below",
    published="nearly as good as models of one class",
)
def is_told_apart(evidence: Evidence) -> Estimate:
    group = _of_mixture(evidence)
    for name in group["over_alone"]:
        evidence.where(family="looped", name=name)
    if set(group["over_alone"]) != set(group["errors"]) or group["worst"] is None:
        raise NotMeasured("looped models of each class alone")
    return Estimate.read(group["worst"])


@claim(
    "mixture_looped_matches_standard",
    "On several function classes a looped model is as good as a standard one.",
    source="arXiv 2311.12424 for one class",
    quantity="error of looped over standard at the last query, means over classes",
    line=1.25,
    holds_if="below",
)
def looped_matches_standard(evidence: Evidence) -> Estimate:
    ratio = evidence.result("mixture")["looped_over_standard"]
    if ratio is None:
        raise NotMeasured("a looped and a standard model of the mixture")
    both_families(evidence, name="mixture")
    return Estimate.read(ratio)


claim(
    "mixture_fails_between_classes",
    "A looped model of several function classes does worse on sums of functions of all of them, of "
    "which training had none, than on the classes.",
    source=f"{_YADLOWSKY}, section 4, for standard models",
    quantity="error on the sums over the mean of the errors on the classes, at the last query",
    line=1.25,
    holds_if="above",
    published="combinations of classes are predicted poorly",
)(lambda evidence: Estimate.read(_of_mixture(evidence)["sums"]))


def _of_mixture(evidence: Evidence) -> Any:
    """The looped model of the mixture."""
    group = measured_groups(evidence, "mixture", family="looped")[0]
    evidence.where(family="looped", name="mixture")
    return group
