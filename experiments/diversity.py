"""Models trained on finitely many functions: nearer to the posterior mean among these (dMMSE), or
to ridge regression, which is optimal for new functions (arXiv 2306.15063).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task.distinct_functions=…
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.bayes import discrete_posterior
from looplab.evaluation.baselines.linear import ridge
from looplab.evaluation.bootstrap import Band, Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel
from looplab.tasks import Prompts
from looplab.tasks.linear import NoisyLinear
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import both_families, estimate_of, measured_groups
from .measuring import (
    EstimateJson,
    GroupsOnPrompts,
    SeedGroup,
    band_of,
    estimate,
    grouped,
    unrolled,
)

_SETS = ("training", "new")  # the functions of the prompts
_LABELS = {"training": "functions of training", "new": "new functions"}


class Diversity(TypedDict):
    """Runs of one kind on prompts of one set of functions: means over all numbers of examples and
    over the variance of y. `error` is the model's at b; `to_dmmse` and `to_ridge` the mean squared
    difference of predictions; `memorises`, to_ridge over the sum of both: 1 for dMMSE itself, 0 for
    ridge regression."""

    error: EstimateJson
    to_dmmse: EstimateJson
    to_ridge: EstimateJson
    memorises: EstimateJson
    error_dmmse: EstimateJson
    error_ridge: EstimateJson


class DiversityGroup(TypedDict):
    """Runs that differ in their seeds alone, and their results by set of functions: those of
    training, or new ones."""

    label: str
    family: str
    functions: int
    training: Diversity
    new: Diversity


class DiversityResult(GroupsOnPrompts[DiversityGroup]):
    """All groups; by number of functions, `looped_over_standard`, the error of the looped model
    over that of the standard one on new functions; and the pictures."""

    looped_over_standard: dict[str, EstimateJson]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> DiversityResult:
    """Compare each run with dMMSE and ridge regression on `settings.prompts` prompts of its own
    functions and as many of new ones. ConfigError for a task other than noisy_linear with
    distinct_functions."""
    groups, errors = [], {}
    for group in grouped(runs):
        result, new_errors = _group(group, settings)
        groups.append(result)
        errors[group.family, result["functions"]] = new_errors
    ratios = {
        str(count): estimate(
            [errors["looped", count], values], lambda means: means[0] / means[1], settings, log=True
        )
        for (family, count), values in errors.items()
        if family == "standard" and ("looped", count) in errors
    }
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "looped_over_standard": ratios,
        "panels": _panels(groups),
    }


def _group(group: SeedGroup, settings: EvaluationConfig) -> tuple[DiversityGroup, Floats]:
    """And the errors on new functions, [seeds, prompts]."""
    task, config = group.runs[0].task, group.runs[0].config
    if not isinstance(task, NoisyLinear) or task.renormalize or not task.distinct_functions:
        raise ConfigError(
            "task",
            "must be noisy_linear with renormalize=false and distinct_functions, got "
            f"{task.name} with {task.distinct_functions}",
        )
    of_training = task.sample(
        torch.Generator().manual_seed(settings.seed), settings.prompts, config.task.points
    )
    new = evaluation_prompts(task, settings.prompts, config.task.points, settings.seed)
    results, errors = {}, {}
    for name, prompts in zip(_SETS, (of_training, new), strict=True):
        results[name], errors[name] = _compared(group, task, prompts, settings)
    return {
        "label": group.label,
        "family": group.family,
        "functions": task.distinct_functions,
        "training": results["training"],
        "new": results["new"],
    }, errors["new"]


def _compared(
    group: SeedGroup, task: NoisyLinear, prompts: Prompts, settings: EvaluationConfig
) -> tuple[Diversity, Floats]:
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    weights = task.functions().double().numpy()
    solvers = {
        "dmmse": discrete_posterior(xs, ys, xs, weights, task.noise_std),
        "ridge": ridge(xs, ys, xs, task.noise_std**2),
    }
    loops = trained_loops(group.runs[0].config)
    models = unrolled(group.runs, prompts, loops, settings.batch_size)[:, -1]

    def differences(first: Floats, second: Floats) -> Floats:
        return np.square(first - second).mean(-1) / task.divisor  # [seeds, prompts]

    def positive(values: Floats) -> EstimateJson:
        return estimate([values], lambda means: means[0], settings, log=True)

    errors = differences(models, ys)
    to_dmmse, to_ridge = (differences(models, solvers[name]) for name in ("dmmse", "ridge"))
    memorises = estimate([np.stack((to_ridge, to_dmmse), axis=-1)], _share, settings)
    return {
        "error": positive(errors),
        "to_dmmse": positive(to_dmmse),
        "to_ridge": positive(to_ridge),
        "memorises": memorises,
        "error_dmmse": positive(differences(solvers["dmmse"][None], ys)),
        "error_ridge": positive(differences(solvers["ridge"][None], ys)),
    }, errors


def _share(means: Sequence[Floats]) -> Floats:
    """The first of the last axis over their sum."""
    return np.asarray(means[0][..., 0] / means[0].sum(-1))


def _panels(groups: Sequence[DiversityGroup]) -> list[Panel]:
    """How far models have memorised, and their errors, by the number of functions."""
    counts = sorted({group["functions"] for group in groups})
    memorises: list[Curve] = []
    errors: list[Curve] = []
    for family in dict.fromkeys(group["family"] for group in groups):
        found = {group["functions"]: group for group in groups if group["family"] == family}
        for part in _SETS:
            rows = {n: g["new"] if part == "new" else g["training"] for n, g in found.items()}
            label = f"{family}, {_LABELS[part]}"
            memorises.append(Curve.of(label, family, _band(rows, counts, "memorises")))
            errors.append(Curve.of(label, family, _band(rows, counts, "error")))
    new = {group["functions"]: group["new"] for group in groups}
    for solver, name in (("dmmse", "dMMSE"), ("ridge", "ridge regression")):
        values = _band(new, counts, f"error_{solver}")
        errors.append(Curve.of(f"{name}, new functions", solver, values, name=solver))
    title = "by the number of functions in training"
    how_near = ("distinct functions", "1: like dMMSE, 0: like ridge regression")
    error = ("distinct functions", "squared error over the variance of y")
    return [
        Panel("diversity-memorises", title, *how_near, counts, memorises, log="x"),
        Panel("diversity-error", title, *error, counts, errors, log="xy"),
    ]


def _band(rows: Mapping[int, Diversity], counts: Sequence[int], key: str) -> Band:
    """A quantity by the number of functions, None where there are no runs."""
    nothing: EstimateJson = {"mean": None, "low": None, "high": None, "seeds": 0, "note": ""}
    values = [
        rows[count][key] if count in rows else nothing  # type: ignore[literal-required]
        for count in counts
    ]
    return band_of(values)


_RAVENTOS = "arXiv 2306.15063, Figure 2"


@claim(
    "few_functions_are_memorised",
    "A looped model that saw few functions in training treats new ones as these: it predicts like "
    "the posterior mean among them (dMMSE), not like ridge regression.",
    source=_RAVENTOS,
    quantity="mean squared distance from ridge regression over the sum of those from it and dMMSE",
    line=0.5,  # as far from the one as from the other
    holds_if="above",
    published="below the threshold of task diversity models are nearer to dMMSE",
)
def few_functions_are_memorised(evidence: Evidence) -> Estimate:
    return estimate_of(_trained_on(evidence, min)["new"]["memorises"])


@claim(
    "many_functions_are_left_behind",
    "A looped model that saw many functions in training solves new ones like ridge regression, "
    "though the posterior mean among those of training would be the better predictor of these.",
    source=_RAVENTOS,
    quantity="mean squared distance from ridge regression over the sum of those from it and dMMSE",
    line=0.5,
    holds_if="below",
    published="above the threshold of task diversity models are nearer to ridge regression",
)
def many_functions_are_left_behind(evidence: Evidence) -> Estimate:
    return estimate_of(_trained_on(evidence, max)["new"]["memorises"])


@claim(
    "looped_needs_no_more_functions",
    "After training on the second-least number of functions a looped model errs no more on new "
    "functions than a standard one.",
    source="arXiv 2306.15063 for standard models; 2311.12424, Figure 5, for few prompts",
    quantity="error on new functions of the looped model over that of the standard one",
    line=1.0,
    holds_if="below",
)
def looped_needs_no_more_functions(evidence: Evidence) -> Estimate:
    ratios = evidence.result("diversity")["looped_over_standard"]
    counts = sorted(map(int, ratios))
    if len(counts) < 3:
        raise NotMeasured("looped and standard models of at least three numbers of functions")
    both_families(evidence, distinct_functions=counts[1])
    return estimate_of(ratios[str(counts[1])])


def _trained_on(evidence: Evidence, choose: Callable[..., Any]) -> Any:
    """The looped models of the fewest (min) or the most functions (max)."""
    groups = measured_groups(evidence, "diversity")
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    group = choose(groups, key=lambda group: group["functions"])
    evidence.where(family="looped", distinct_functions=group["functions"])
    return group
