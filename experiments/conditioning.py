"""Models of ill-conditioned inputs: errors by loop and by condition number, within and beyond those
of training (arXiv 2410.21698)."""

from collections.abc import Sequence
from dataclasses import replace

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
from .question import Result, band_of, bands_by_loop, by_loop, estimate, squared_errors

_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the largest condition number of training
_LAST_QUERY = by_loop_name(SQUARED_ERROR)


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Errors of the last query of runs of one task, on `settings.prompts` prompts of each condition
    number, which are drawn from the same numbers.

    Each of the `groups` has its errors at b by each of the `conditions`, `by_condition`; and, at
    the largest condition number of training, `condition`, those by the loop, as `bands_by_loop` has
    them, and `rise`: the factor by which the error of a loop up to b exceeds the least of an
    earlier loop at most (1: it never rises). `gain_ratio`, of looped models of several b, is the
    error with the fewest loops over that with the most, at this condition number over the same at
    the smallest.
    """
    task = runs[0].task
    points = runs[0].config.task.points
    assert isinstance(task, ConditionedLinear)
    # No condition number is below 1.
    κs = sorted({max(1.0, factor * task.condition) for factor in _FACTORS})
    tasks = [replace(task, condition=κ, varied=False) for κ in κs]
    prompts = [evaluation_prompts(t, settings.prompts, points, settings.seed) for t in tasks]
    groups = []
    looped: dict[int, Floats] = {}  # by b
    for label, group in labelled(runs):
        by_κ = [squared_errors(group, of_κ, settings)[..., -1] for of_κ in prompts]
        of_training = by_κ[κs.index(task.condition)]  # [seeds, prompts, b]
        result = bands_by_loop(label, group, of_training, settings)
        at_b = [estimate([errors[..., -1]], settings, log=True) for errors in by_κ]
        result["by_condition"] = band_of(at_b)
        result["rise"] = estimate([of_training], settings, largest_rise, log=True)
        groups.append(result)
        if group.family == "looped":
            # At the smallest condition number and at the largest of training, [seeds, prompts, 2].
            looped[group.b] = np.stack((by_κ[0][..., -1], of_training[..., -1]), axis=-1)
    results: Result = {"groups": groups, "conditions": κs, "condition": task.condition}
    if len(looped) > 1:
        both = [looped[min(looped)], looped[max(looped)]]
        results["gain_ratio"] = estimate(both, settings, _gain_ratio, log=True)
    return results


def panels(result: Result) -> list[Panel]:
    """Errors by the condition number; and by the loop, of each group."""
    condition = result["condition"]
    groups = result["groups"]
    curves = [Curve.of(group["label"], group["family"], group["by_condition"]) for group in groups]
    title = f"by condition number (largest of training: {condition:g})"
    axes = ("condition number", _LAST_QUERY)
    name = "conditioning-by-condition"
    drawn = [Panel(name, title, *axes, result["conditions"], curves, log="xy")]
    for group in groups:
        title = f"{group['label']}, condition number {condition:g}"
        axes = (unit(group["family"]), _LAST_QUERY)
        drawn.append(by_loop("conditioning-by-loop", title, axes, group))
    return drawn


def _gain_ratio(means: Sequence[Floats]) -> Floats:
    """The error with few loops over that with many, [..., 2], at the largest condition number over
    the same at the least."""
    gains = means[0] / means[1]
    return np.asarray(gains[..., 1] / gains[..., 0])


def rise(evidence: Evidence, family: str) -> Estimate:
    """The largest factor by which the error of a loop exceeds an earlier one's, of the model of the
    most loops."""
    return of_group(evidence, "conditioning", "rise", most="b", family=family)


def gain_ratio(evidence: Evidence) -> Estimate:
    """The error with few loops over that with many, at the largest condition number of training
    over that at the smallest."""
    return of_runs(evidence, "conditioning", "gain_ratio", family="looped")
