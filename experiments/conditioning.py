"""Models of ill-conditioned inputs: errors by loop and by condition number, within and beyond those
of training (arXiv 2410.21698).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task=conditioned_linear
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import measured_groups
from .measuring import (
    SQUARED_ERROR,
    SeedGroup,
    band,
    band_of,
    estimate,
    first_over_second,
    grouped,
    one_over_other,
    unrolled,
)

_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the largest condition number of training
_LAST_QUERY = SQUARED_ERROR.replace("error", "error of the last query")
_GATMIRY = "arXiv 2410.21698"
_RISE = "largest factor by which the error of a loop exceeds an earlier one's, up to b"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Errors of each run on `settings.prompts` prompts of each condition number. ConfigError for a
    task other than conditioned_linear, and runs of different condition numbers.

    Each of the `groups` has `errors`, at b of the last query by condition number (all prompts have
    this one), over the variance of y; and at the largest of training, `condition`, `rise`, the
    factor by which the error of a loop up to b exceeds the least of an earlier loop at most (1: it
    never rises), and `beyond`, the error at ten times this condition number over that at it. Of
    looped models `gain` has, by condition number, the error with the fewest loops in training over
    that with the most, each at its own b; `gain_ratio` is that at the largest condition number of
    training over that at the smallest measured one. There is none with one number of loops.
    """
    found = list[tuple[SeedGroup, dict[float, Floats]]]()  # errors by condition number
    largest = set[float]()
    for group in grouped(runs):
        task = group.task
        if not isinstance(task, ConditionedLinear) or task.condition == 1:
            raise ConfigError("task", "must be conditioned_linear with a condition above 1")
        largest.add(task.condition)
        κs = [max(1.0, factor * task.condition) for factor in _FACTORS]
        found.append((group, {κ: _errors(group, task, κ, settings) for κ in κs}))
    if len(largest) > 1:
        raise ConfigError("task.condition", "must be the same in all runs")
    κ = largest.pop()
    groups = [_result(group, κ, errors, settings) for group, errors in found]
    gain, gain_ratio = _gains(found, κ, settings)
    by_condition = Panel(
        "conditioning-by-condition",
        f"by condition number (largest of training: {κ:g})",
        "condition number",
        _LAST_QUERY,
        list(found[0][1]),
        [
            Curve.of(each["label"], each["family"], band_of(list(each["errors"].values())))
            for each in groups
        ],
        log="xy",
    )
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "gain": gain,
        "gain_ratio": gain_ratio,
        "panels": [by_condition, *(_by_loop(group, κ, each[κ], settings) for group, each in found)],
    }


def _errors(
    group: SeedGroup, task: ConditionedLinear, κ: float, settings: EvaluationConfig
) -> Floats:
    """Errors of the last query, [seeds, prompts, b], at this condition number. Prompts are drawn
    from the same numbers for every one."""
    points = group.config.task.points
    one = replace(task, condition=κ, varied=False)
    prompts = evaluation_prompts(one, settings.prompts, points, settings.seed)
    outputs = prompts.ys[:, -1].double().numpy()
    models = unrolled(group, prompts, settings)[..., -1]
    return np.square(models - outputs).swapaxes(1, 2) / task.divisor


def _result(
    group: SeedGroup, κ: float, errors: Mapping[float, Floats], settings: EvaluationConfig
) -> dict[str, Any]:
    def rise(means: Sequence[Floats]) -> Floats:
        """The largest error of a loop over the least of an earlier one, 1 at least."""
        least = np.minimum.accumulate(means[0], axis=-1)
        rises = means[0][..., 1:] / least[..., :-1]
        return np.maximum(rises.max(-1, initial=1.0), 1.0)

    both = np.stack((errors[10 * κ][..., -1], errors[κ][..., -1]), axis=-1)
    return {
        "label": group.label,
        "family": group.family,
        "b": group.b,
        "condition": κ,
        "errors": {
            f"{other:g}": estimate([each[..., -1]], settings, log=True)
            for other, each in errors.items()
        },
        "rise": estimate([errors[κ]], settings, rise, log=True),
        "beyond": estimate([both], settings, first_over_second, log=True),
    }


def _gains(
    found: Sequence[tuple[SeedGroup, Mapping[float, Floats]]], κ: float, settings: EvaluationConfig
) -> tuple[dict[str, Estimate], Estimate | None]:
    """`gain` and `gain_ratio` of `measure`."""
    looped = [each for each in found if each[0].family == "looped"]
    if len({group.b for group, _ in looped}) < 2:
        return {}, None
    few, many = (choose(looped, key=lambda each: each[0].b)[1] for choose in (min, max))
    gain = {
        f"{each:g}": estimate(
            [few[each][..., -1], many[each][..., -1]], settings, one_over_other, log=True
        )
        for each in few
    }

    def ratio(means: Sequence[Floats]) -> Floats:
        gains = means[0] / means[1]  # at the smallest and the largest condition number
        return np.asarray(gains[..., 1] / gains[..., 0])

    both = [np.stack((each[min(few)][..., -1], each[κ][..., -1]), -1) for each in (few, many)]
    return gain, estimate(both, settings, ratio, log=True)


def _by_loop(group: SeedGroup, κ: float, errors: Floats, settings: EvaluationConfig) -> Panel:
    """Errors by loop, or by layer, at the largest condition number of training."""
    return Panel(
        f"conditioning-by-loop-{file_name(group.label)}",
        f"{group.label}, condition number {κ:g}",
        "layer" if group.family == "standard" else "loop",
        _LAST_QUERY,
        range(1, group.b + 1),
        [Curve.of(group.label, group.family, band([errors], settings), name="model", b=group.b)],
        log="y",
    )


claim(
    "looped_error_falls_with_every_loop",
    "The error of a looped model on ill-conditioned inputs never rises from loop to loop, up to "
    "those that it was trained with.",
    source=f"{_GATMIRY}, theorem on monotone loss",
    quantity=_RISE,
    line=1.1,  # a tenth: the noise of an error that is level, not a rise
    holds_if="below",
    published="the loss falls monotonically with the depth",
)(lambda evidence: _rise(evidence, "looped"))

claim(
    "standard_error_rises_between_layers",
    "The error of a standard model on ill-conditioned inputs rises between some of its layers.",
    source=f"{_GATMIRY}, on models without weight sharing",
    quantity=_RISE,
    line=1.1,
    holds_if="above",
    published="looped models alone are monotone",
)(lambda evidence: _rise(evidence, "standard"))


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
def need_depth(evidence: Evidence) -> Estimate:
    gain_ratio = evidence.result("conditioning")["gain_ratio"]
    evidence.where(family="looped")
    if gain_ratio is None:
        raise NotMeasured("looped models of two numbers of loops")
    return Estimate.read(gain_ratio)


def _rise(evidence: Evidence, family: str) -> Estimate:
    """Of the group of a family with the most loops or layers."""
    groups = measured_groups(evidence, "conditioning", family=family)
    evidence.where(family=family)
    return Estimate.read(max(groups, key=lambda group: group["b"])["rise"])
