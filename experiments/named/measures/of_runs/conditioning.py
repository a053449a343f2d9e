"""Models of ill-conditioned inputs: errors by loop and by condition number, within and beyond those
of training (arXiv 2410.21698).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task=conditioned_linear
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.bootstrap import Floats
from reloop.evaluation.errors import evaluation_prompts
from reloop.experiments.named.results import Curve, Panel
from reloop.tasks.conditioned_linear import ConditionedLinear
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run

from .common import (
    EstimateJson,
    Group,
    curve,
    estimate,
    file_name,
    grouped,
    over_seeds,
    prompt_counts,
    resampled,
    unrolled,
)

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


class ConditioningResult(TypedDict):
    """All groups, and the pictures. Of looped models `gain` has, by condition number, the error
    with the fewest loops in training over that with the most, each at its own b; `gain_ratio` is
    that at the largest condition number of training over that at the smallest measured one."""

    prompts: int
    groups: list[ConditioningGroup]
    gain: dict[str, EstimateJson]
    gain_ratio: EstimateJson | None
    panels: list[Panel]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> ConditioningResult:
    """Errors of each run on `settings.prompts` prompts of each condition number. ConfigError for a
    task other than conditioned_linear, and runs of different condition numbers."""
    groups, curves = [], []
    means: list[dict[float, Floats]] = []
    for group in grouped(runs):
        task = group.runs[0].task
        if not isinstance(task, ConditionedLinear) or task.condition == 1:
            raise ConfigError("task", "must be conditioned_linear with a condition above 1")
        by_condition = {
            max(1.0, factor * task.condition): _errors(group, task, factor, settings)
            for factor in _FACTORS
        }
        result, band = _group(group, task, by_condition, settings)
        groups.append(result)
        curves.append(band)
        means.append({κ: errors[..., result["b"] - 1] for κ, errors in by_condition.items()})
    if len({group["condition"] for group in groups}) > 1:
        raise ConfigError("task.condition", "must be the same in all runs")
    gain = _gain(groups, means)
    largest = groups[0]["condition"]
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "gain": {f"{κ:g}": estimate(values, settings.seed) for κ, values in gain.items()},
        "gain_ratio": estimate(gain[largest] / gain[min(gain)], settings.seed) if gain else None,
        "panels": [_by_condition(groups), *_by_loop(groups, curves)],
    }


def _errors(
    group: Group, task: ConditionedLinear, factor: float, settings: EvaluationConfig
) -> Floats:
    """Mean errors of the last query, [resamples + 1, seeds, b], at this factor of the largest
    condition number of training."""
    config = group.runs[0].config
    one = replace(task, condition=max(1.0, factor * task.condition), varied=False)
    prompts = evaluation_prompts(one, settings.prompts, config.task.points, settings.seed)
    loops, outputs = trained_loops(config), prompts.ys[:, -1].double().numpy()
    models = [unrolled(run, prompts, loops, settings.batch_size)[..., -1] for run in group.runs]
    squares = np.square(np.stack(models) - outputs).swapaxes(1, 2) / task.divisor
    counts = prompt_counts(len(outputs), settings.resamples, settings.seed)
    return resampled(counts, squares)


def _group(
    group: Group,
    task: ConditionedLinear,
    by_condition: Mapping[float, Floats],
    settings: EvaluationConfig,
) -> tuple[ConditioningGroup, Curve]:
    b, seed, κ = trained_loops(group.runs[0].config), settings.seed, task.condition
    own = by_condition[κ]
    least = np.minimum.accumulate(own, axis=-1)
    rises = own[..., 1:] / least[..., :-1]
    rise = np.maximum(rises.max(-1), 1) if b > 1 else np.ones(own.shape[:2])
    result: ConditioningGroup = {
        "label": group.label,
        "family": group.family,
        "b": b,
        "condition": κ,
        "errors": {
            f"{other:g}": estimate(errors[..., b - 1], seed)
            for other, errors in by_condition.items()
        },
        "rise": estimate(rise, seed),
        "beyond": estimate(by_condition[10 * κ][..., b - 1] / own[..., b - 1], seed),
    }
    return result, curve("model", group.label, group.family, over_seeds(own, seed).to_json(), b)


def _gain(
    groups: Sequence[ConditioningGroup], means: Sequence[Mapping[float, Floats]]
) -> dict[float, Floats]:
    """Of the looped models with the fewest and the most loops, the ratio of errors by condition
    number, [resamples + 1, seeds]; empty where there is but one number of loops."""
    places = [i for i, group in enumerate(groups) if group["family"] == "looped"]
    if len({groups[i]["b"] for i in places}) < 2:
        return {}
    few, many = (choose(places, key=lambda i: groups[i]["b"]) for choose in (min, max))
    return {κ: errors / means[many][κ].mean(1, keepdims=True) for κ, errors in means[few].items()}


def _by_condition(groups: Sequence[ConditioningGroup]) -> Panel:
    """Errors at b by condition number."""
    x = [float(κ) for κ in groups[0]["errors"]]
    curves = [
        Curve(
            name=file_name(group["label"]),
            label=group["label"],
            kind=group["family"],
            mean=[value["mean"] for value in group["errors"].values()],
            low=[value["low"] for value in group["errors"].values()],
            high=[value["high"] for value in group["errors"].values()],
        )
        for group in groups
    ]
    level = f"largest of training: {groups[0]['condition']:g}"
    return _panel("by_condition", f"by condition number ({level})", "condition number", x, curves)


def _by_loop(groups: Sequence[ConditioningGroup], curves: Sequence[Curve]) -> list[Panel]:
    """Errors by loop, or by layer, at the largest condition number of training."""
    return [
        _panel(
            f"by_loop_{file_name(group['label'])}",
            f"{group['label']}, condition number {group['condition']:g}",
            "layer" if group["family"] == "standard" else "loop",
            [float(loop + 1) for loop in range(group["b"])],
            [line],
        )
        for group, line in zip(groups, curves, strict=True)
    ]


def _panel(name: str, title: str, x_label: str, x: list[float], curves: list[Curve]) -> Panel:
    return {
        "name": f"conditioning_{name}",
        "title": title,
        "x_label": x_label,
        "y_label": "squared error of the last query over the variance of y",
        "x": x,
        "log_x": x_label == "condition number",
        "log_y": True,
        "curves": curves,
        "levels": {},
    }
