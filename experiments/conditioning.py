"""Models of ill-conditioned inputs: errors by loop and by condition number, within and beyond those
of training (arXiv 2410.21698)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.groups import labelled
from looplab.evaluation.results import SQUARED_ERROR, by_loop_name, unit
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, largest_rise, of_group, of_runs
from .measuring import band_of, bands_by_loop, by_loop, estimate, squared_errors

_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the largest condition number of training
_LAST_QUERY = by_loop_name(SQUARED_ERROR)


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Errors of the last query of runs of one task, on `settings.prompts` prompts of each condition
    number, which are drawn from the same numbers.

    Each of the `groups` has its errors at b by each of the `conditions`, `by_condition`; and, at
    the largest condition number of training, `condition`, those by the loop, as `bands_by_loop` has
    them, and `rise`: the factor by which the error of a loop up to b exceeds the least of an
    earlier loop at most (1: it never rises). `gain_ratio`, of looped models of several b, is the
    error with the fewest loops over that with the most, at this condition number over the same at
    the smallest.
    """
    task, points = runs[0].task, runs[0].config.task.points
    assert isinstance(task, ConditionedLinear)
    κs = sorted({max(1.0, factor * task.condition) for factor in _FACTORS})
    tasks = [replace(task, condition=κ, varied=False) for κ in κs]
    prompts = [evaluation_prompts(t, settings.prompts, points, settings.seed) for t in tasks]
    largest, groups = κs.index(task.condition), []
    looped: dict[int, Floats] = {}  # by b
    for label, group in labelled(runs):
        by_κ = [squared_errors(group, each, settings)[..., -1] for each in prompts]
        of_training = by_κ[largest]  # [seeds, prompts, b]
        rise = estimate([of_training], settings, largest_rise, log=True)
        at_b = [estimate([errors[..., -1]], settings, log=True) for errors in by_κ]
        by_loops = bands_by_loop(label, group, of_training, settings)
        groups.append({**by_loops, "by_condition": band_of(at_b), "rise": rise})
        if group.family == "looped":
            looped[group.b] = np.stack((by_κ[0][..., -1], of_training[..., -1]), axis=-1)
    found: dict[str, Any] = {"groups": groups, "conditions": κs, "condition": task.condition}
    if len(looped) > 1:

        def gain_ratio(means: Sequence[Floats]) -> Floats:
            """With few loops and with many, at the least and the largest condition number."""
            gains = means[0] / means[1]
            return np.asarray(gains[..., 1] / gains[..., 0])

        both = [looped[min(looped)], looped[max(looped)]]
        found["gain_ratio"] = estimate(both, settings, gain_ratio, log=True)
    return found


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Errors by the condition number; and by the loop, of each group."""
    groups, condition = found["groups"], found["condition"]
    curves = [Curve.of(each["label"], each["family"], each["by_condition"]) for each in groups]
    title = f"by condition number (largest of training: {condition:g})"
    axes = ("condition number", _LAST_QUERY)
    name = "conditioning-by-condition"
    drawn = [Panel(name, title, *axes, found["conditions"], curves, log="xy")]
    for group in groups:
        title = f"{group['label']}, condition number {condition:g}"
        axes = (unit(group["family"]), _LAST_QUERY)
        drawn.append(by_loop("conditioning-by-loop", title, axes, group))
    return drawn


def rise(evidence: Evidence, family: str) -> Estimate:
    """The largest factor by which the error of a loop exceeds an earlier one's, of the model of the
    most loops."""
    return of_group(evidence, "conditioning", "rise", most="b", family=family)


def gain_ratio(evidence: Evidence) -> Estimate:
    """The error with few loops over that with many, at the largest condition number of training
    over that at the smallest."""
    return of_runs(evidence, "conditioning", "gain_ratio", family="looped")
