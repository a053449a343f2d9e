"""Models of several function classes, on prompts of each class beside models of that class alone,
and on sums of functions of all classes, of which training had none (arXiv 2311.00871).

result = measure(runs, EvaluationConfig(prompts=512))   # runs of task=mixture, and of its classes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks import Prompts, Task
from looplab.tasks.mixture import Mixture
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import both_families, estimate_of, measured_groups
from .measuring import EstimateJson, GroupsOnPrompts, SeedGroup, band, estimate, grouped, unrolled

_SUMS = "sums of functions of all classes"


class MixtureGroup(TypedDict):
    """Runs of the mixture that differ in their seeds alone. By class: `errors` of the last query at
    b over the variance of y, and `over_alone`, this error over that of the runs of the same family
    that were trained on this class alone. `worst`: the largest of these ratios, None without such
    runs. `sums`: the error on sums of functions of all classes over the mean of the classes'."""

    label: str
    family: str
    errors: dict[str, EstimateJson]
    over_alone: dict[str, EstimateJson]
    worst: EstimateJson | None
    sums: EstimateJson


class MixtureResult(GroupsOnPrompts[MixtureGroup]):
    """All groups, `looped_over_standard`, the looped mixture's error over the standard one's, means
    over classes, None without both; and the pictures."""

    looped_over_standard: EstimateJson | None


class _Errors(NamedTuple):
    """The errors [seeds, prompts, points] at b of a group, by the functions of the prompts."""

    group: SeedGroup
    by_set: Mapping[str, Floats]

    def last(self, name: str) -> Floats:
        """Of the last query, [seeds, prompts, 1]."""
        return self.by_set[name][..., -1:]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> MixtureResult:
    """Errors of each run on `settings.prompts` prompts of each class, and of their sums.
    ConfigError for runs of several mixtures or of none, and of a class that is no part of it."""
    groups = grouped(runs)
    mixture = _mixture(groups)
    parts = dict(zip(mixture.mixed, mixture.parts, strict=True))
    tasks: dict[str, Task] = {name: replace(mixture, mixed=(name,)) for name in parts}
    tasks[_SUMS] = replace(mixture, combined=True)
    points = max(run.config.task.points for run in runs)
    prompts = {
        name: evaluation_prompts(task, settings.prompts, points, settings.seed)
        for name, task in tasks.items()
    }
    mixed: list[_Errors] = []
    alone: list[_Errors] = []
    for group in groups:
        if isinstance(group.runs[0].task, Mixture):
            names, scale = list(tasks), 1.0
        else:
            names = [_class_of(group, parts)]
            scale = parts[names[0]].divisor ** 0.5  # the class's own outputs are not of variance 1
        by_set = {name: _errors(group, prompts[name], scale, settings) for name in names}
        (mixed if len(names) > 1 else alone).append(_Errors(group, by_set))
    families = {each.group.family: each for each in mixed}
    both = [families[name] for name in ("looped", "standard") if name in families]
    return {
        "prompts": settings.prompts,
        "groups": [_result(each, alone, list(parts), settings) for each in mixed],
        "looped_over_standard": _ratio(both, list(parts), settings) if len(both) == 2 else None,
        "panels": _panels(mixed, alone, list(tasks), settings),
    }


def _mixture(groups: Sequence[SeedGroup]) -> Mixture:
    """The one mixture that models were trained on."""
    found = {task for group in groups if isinstance(task := group.runs[0].task, Mixture)}
    if len(found) != 1 or len({group.runs[0].config.task.points for group in groups}) > 1:
        raise ConfigError("task", "must be one mixture, and its classes at the same task.points")
    return found.pop()


def _class_of(group: SeedGroup, parts: Mapping[str, Task]) -> str:
    task = group.runs[0].task.for_evaluation()
    if parts.get(task.name) != task:
        raise ConfigError("task", f"cannot be {task.name} as set: it is no class of the mixture")
    return task.name


def _errors(group: SeedGroup, prompts: Prompts, scale: float, settings: EvaluationConfig) -> Floats:
    """Errors at b over the variance of y, for models that know outputs `scale` times as large."""
    scaled = Prompts(prompts.xs, prompts.ys * scale)
    loops = trained_loops(group.runs[0].config)
    models = unrolled(group.runs, scaled, loops, settings.batch_size)[:, -1]
    return np.square(models / scale - prompts.ys.double().numpy())


def _result(
    own: _Errors, alone: Iterable[_Errors], classes: Sequence[str], settings: EvaluationConfig
) -> MixtureGroup:
    others = {
        name: each
        for each in alone
        for name in each.by_set
        if each.group.family == own.group.family
    }
    errors = np.concatenate([own.last(name) for name in (*classes, _SUMS)], axis=-1)
    places = [classes.index(name) for name in others]

    def worst(means: Sequence[Floats]) -> Floats:
        ratios = [means[0][..., at] / of[..., 0] for at, of in zip(places, means[1:], strict=True)]
        return np.asarray(np.max(ratios, axis=0))

    groups = [errors, *(each.last(name) for name, each in others.items())]
    return {
        "label": own.group.label,
        "family": own.group.family,
        "errors": {
            name: estimate([own.last(name)], lambda means: means[0][..., 0], settings, log=True)
            for name in classes
        },
        "over_alone": {
            name: _ratio([own, each], [name], settings) for name, each in others.items()
        },
        "worst": estimate(groups, worst, settings, log=True) if others else None,
        "sums": estimate(
            [errors],
            lambda means: means[0][..., -1] / means[0][..., :-1].mean(-1),
            settings,
            log=True,
        ),
    }


def _ratio(
    pair: Sequence[_Errors], names: Sequence[str], settings: EvaluationConfig
) -> EstimateJson:
    """The error of the first over that of the second, means over these classes."""
    groups = [np.concatenate([each.last(name) for name in names], axis=-1) for each in pair]
    return estimate(groups, lambda means: means[0].mean(-1) / means[1].mean(-1), settings, log=True)


def _panels(
    mixed: Sequence[_Errors],
    alone: Sequence[_Errors],
    names: Sequence[str],
    settings: EvaluationConfig,
) -> list[Panel]:
    """Errors by examples: a panel for each class, and one for the sums."""
    found = []
    for name in names:
        curves = []
        for each in (*mixed, *alone):
            if name in each.by_set:
                values = band([each.by_set[name]], lambda means: means[0], settings)
                of = "the mixture" if len(each.by_set) > 1 else "this class alone"
                family = each.group.family
                curves.append(Curve.of(f"{family}, trained on {of}", family, values))
        text = name.replace("_", " ")
        title = text if name == _SUMS else f"functions of class {text}"
        axes = ("in-context examples k", "squared error over the variance of y")
        x = range(len(curves[0].mean))
        found.append(Panel(f"mixture-{file_name(name)}", title, *axes, x, curves, log="y"))
    return found


_YADLOWSKY = "arXiv 2311.00871"


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
def mixture_is_told_apart(evidence: Evidence) -> Estimate:
    group = _of_mixture(evidence)
    for name in group["over_alone"]:
        evidence.where(family="looped", name=name)
    if set(group["over_alone"]) != set(group["errors"]) or group["worst"] is None:
        raise NotMeasured("looped models of each class alone")
    return estimate_of(group["worst"])


@claim(
    "mixture_looped_matches_standard",
    "On several function classes a looped model is as good as a standard one.",
    source="arXiv 2311.12424 for one class",
    quantity="error of looped over standard at the last query, means over classes",
    line=1.25,
    holds_if="below",
)
def mixture_looped_matches_standard(evidence: Evidence) -> Estimate:
    ratio = evidence.result("mixture")["looped_over_standard"]
    if ratio is None:
        raise NotMeasured("a looped and a standard model of the mixture")
    both_families(evidence, name="mixture")
    return estimate_of(ratio)


@claim(
    "mixture_fails_between_classes",
    "A looped model of several function classes does worse on sums of functions of all of them, of "
    "which training had none, than on the classes.",
    source=f"{_YADLOWSKY}, section 4, for standard models",
    quantity="error on the sums over the mean of the errors on the classes, at the last query",
    line=1.25,
    holds_if="above",
    published="combinations of classes are predicted poorly",
)
def mixture_fails_between_classes(evidence: Evidence) -> Estimate:
    return estimate_of(_of_mixture(evidence)["sums"])


def _of_mixture(evidence: Evidence) -> Any:
    """The looped model of the mixture."""
    for group in measured_groups(evidence, "mixture"):
        evidence.where(family="looped", name="mixture")
        return group
    raise NotMeasured("no looped model of the mixture")
