"""Models of ill-conditioned inputs: errors by loop and by condition number, within and beyond those
of training (arXiv 2410.21698).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task=conditioned_linear
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import estimate_of, measured_groups
from .measuring import (
    EstimateJson,
    GroupsOnPrompts,
    SeedGroup,
    band,
    band_of,
    estimate,
    grouped,
    unrolled,
)

_ERROR = "squared error of the last query over the variance of y"
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the largest condition number of training


class ConditioningGroup(TypedDict):
    """Runs of one kind: the error at b of the last query by condition number (all prompts have
    this one), over the variance of y; at the largest of training `rise`, the factor by which the
    error of a loop up to b exceeds the least of an earlier loop at most (1: it never rises), and
    `beyond`, the error at ten times this condition number over that at it."""

    label: str
    family: str
    b: int
    condition: float
    errors: dict[str, EstimateJson]
    rise: EstimateJson
    beyond: EstimateJson


class ConditioningResult(GroupsOnPrompts[ConditioningGroup]):
    """All groups, and the pictures. Of looped models `gain` has, by condition number, the error
    with the fewest loops in training over that with the most, each at its own b; `gain_ratio` is
    that at the largest condition number of training over that at the smallest measured one."""

    gain: dict[str, EstimateJson]
    gain_ratio: EstimateJson | None


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> ConditioningResult:
    """Errors of each run on `settings.prompts` prompts of each condition number. ConfigError for a
    task other than conditioned_linear, and runs of different condition numbers."""
    groups, curves = [], []
    at_b: list[dict[float, Floats]] = []
    for group in grouped(runs):
        task = group.runs[0].task
        if not isinstance(task, ConditionedLinear) or task.condition == 1:
            raise ConfigError("task", "must be conditioned_linear with a condition above 1")
        by_condition = {
            max(1.0, factor * task.condition): _errors(group, task, factor, settings)
            for factor in _FACTORS
        }
        result, line = _group(group, task, by_condition, settings)
        groups.append(result)
        curves.append(line)
        at_b.append({κ: errors[..., -1:] for κ, errors in by_condition.items()})
    if len({group["condition"] for group in groups}) > 1:
        raise ConfigError("task.condition", "must be the same in all runs")
    gain, gain_ratio = _gains(groups, at_b, settings)
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "gain": gain,
        "gain_ratio": gain_ratio,
        "panels": [_by_condition(groups), *_by_loop(groups, curves)],
    }


def _errors(
    group: SeedGroup, task: ConditionedLinear, factor: float, settings: EvaluationConfig
) -> Floats:
    """Errors of the last query, [seeds, prompts, b], at this factor of the largest condition number
    of training. Prompts are drawn from the same numbers for every factor."""
    config = group.runs[0].config
    one = replace(task, condition=max(1.0, factor * task.condition), varied=False)
    prompts = evaluation_prompts(one, settings.prompts, config.task.points, settings.seed)
    loops, outputs = trained_loops(config), prompts.ys[:, -1].double().numpy()
    models = unrolled(group.runs, prompts, loops, settings.batch_size)[..., -1]
    return np.square(models - outputs).swapaxes(1, 2) / task.divisor


def _group(
    group: SeedGroup,
    task: ConditionedLinear,
    by_condition: Mapping[float, Floats],
    settings: EvaluationConfig,
) -> tuple[ConditioningGroup, Curve]:
    b, κ = trained_loops(group.runs[0].config), task.condition
    own = by_condition[κ]
    beyond = np.stack((by_condition[10 * κ][..., -1], own[..., -1]), axis=-1)
    result: ConditioningGroup = {
        "label": group.label,
        "family": group.family,
        "b": b,
        "condition": κ,
        "errors": {
            f"{other:g}": estimate([errors], lambda means: means[0][..., -1], settings, log=True)
            for other, errors in by_condition.items()
        },
        "rise": estimate([own], _rise, settings, log=True),
        "beyond": estimate(
            [beyond], lambda means: means[0][..., 0] / means[0][..., 1], settings, log=True
        ),
    }
    by_loop = band([own], lambda means: means[0], settings)
    return result, Curve.of(group.label, group.family, by_loop, name="model", b=b)


def _rise(means: Sequence[Floats]) -> Floats:
    """The largest error of a loop over the least of an earlier one, 1 at least."""
    errors = means[0]
    least = np.minimum.accumulate(errors, axis=-1)
    rises = errors[..., 1:] / least[..., :-1]
    return np.maximum(rises.max(-1, initial=1.0), 1.0)


def _gains(
    groups: Sequence[ConditioningGroup],
    errors: Sequence[Mapping[float, Floats]],
    settings: EvaluationConfig,
) -> tuple[dict[str, EstimateJson], EstimateJson | None]:
    """The error of the looped models with the fewest loops over that with the most, by condition
    number; and this gain at the largest condition number of training over that at the smallest
    measured. Nothing where there is but one number of loops."""
    places = [i for i, group in enumerate(groups) if group["family"] == "looped"]
    if len({groups[i]["b"] for i in places}) < 2:
        return {}, None
    few, many = (errors[choose(places, key=lambda i: groups[i]["b"])] for choose in (min, max))
    largest, least = groups[0]["condition"], min(few)
    gain = {f"{κ:g}": estimate([few[κ], many[κ]], _ratio, settings, log=True) for κ in few}
    both = [np.concatenate((part[least], part[largest]), axis=-1) for part in (few, many)]
    growth = estimate(
        both, lambda means: _ratio(means) / (means[0] / means[1])[..., 0], settings, log=True
    )
    return gain, growth


def _ratio(means: Sequence[Floats]) -> Floats:
    """The first error over the second, at the last place."""
    return np.asarray(means[0][..., -1] / means[1][..., -1])


def _by_condition(groups: Sequence[ConditioningGroup]) -> Panel:
    """Errors at b by condition number."""
    curves = [
        Curve.of(group["label"], group["family"], band_of(list(group["errors"].values())))
        for group in groups
    ]
    title = f"by condition number (largest of training: {groups[0]['condition']:g})"
    axes = ("condition number", _ERROR)
    x = [float(κ) for κ in groups[0]["errors"]]
    return Panel("conditioning-by-condition", title, *axes, x, curves, log="xy")


def _by_loop(groups: Sequence[ConditioningGroup], curves: Sequence[Curve]) -> list[Panel]:
    """Errors by loop, or by layer, at the largest condition number of training."""
    return [
        Panel(
            f"conditioning-by-loop-{file_name(group['label'])}",
            f"{group['label']}, condition number {group['condition']:g}",
            "layer" if group["family"] == "standard" else "loop",
            _ERROR,
            range(1, group["b"] + 1),
            [line],
            log="y",
        )
        for group, line in zip(groups, curves, strict=True)
    ]


_GATMIRY = "arXiv 2410.21698"
_RISE = "largest factor by which the error of a loop exceeds an earlier one's, up to b"


@claim(
    "looped_error_falls_with_every_loop",
    "The error of a looped model on ill-conditioned inputs never rises from loop to loop, up to "
    "those that it was trained with.",
    source=f"{_GATMIRY}, theorem on monotone loss",
    quantity=_RISE,
    line=1.1,  # a tenth: the noise of an error that is level, not a rise
    holds_if="below",
    published="the loss falls monotonically with the depth",
)
def looped_error_falls_with_every_loop(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "looped")["rise"])


@claim(
    "standard_error_rises_between_layers",
    "The error of a standard model on ill-conditioned inputs rises between some of its layers.",
    source=f"{_GATMIRY}, on models without weight sharing",
    quantity=_RISE,
    line=1.1,
    holds_if="above",
    published="looped models alone are monotone",
)
def standard_error_rises_between_layers(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "standard")["rise"])


@claim(
    "ill_conditioned_inputs_need_depth",
    "More loops help more on ill-conditioned inputs than on well-conditioned ones.",
    source=f"{_GATMIRY}, lower bounds log κ and √κ of the depth",
    quantity="error with few loops over that with many, at the largest condition number of "
    "training over that at the smallest",
    line=1.0,
    holds_if="above",
    published="the depth that is needed grows with κ",
)
def ill_conditioned_inputs_need_depth(evidence: Evidence) -> Estimate:
    gain_ratio = evidence.result("conditioning")["gain_ratio"]
    evidence.where(family="looped")
    if gain_ratio is None:
        raise NotMeasured("looped models of two numbers of loops")
    return estimate_of(gain_ratio)


def _deepest(evidence: Evidence, family: str) -> Any:
    """The group of a family with the most loops or layers."""
    groups = measured_groups(evidence, "conditioning", family)
    evidence.where(family=family)
    if not groups:
        raise NotMeasured(f"no {family} model of ill-conditioned inputs")
    return max(groups, key=lambda group: group["b"])
