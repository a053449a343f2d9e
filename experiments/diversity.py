"""Models trained on finitely many functions: nearer to the posterior mean among these (dMMSE), or
to ridge regression, which is optimal for new functions (arXiv 2306.15063).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task.distinct_functions=…
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.bayes import discrete_posterior
from looplab.evaluation.baselines.linear import ridge
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel
from looplab.tasks import Prompts
from looplab.tasks.linear import NoisyLinear
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import both_families, measured_groups
from .measuring import (
    SQUARED_ERROR,
    SeedGroup,
    band_of,
    estimate,
    grouped,
    looped_over_standard,
    unrolled,
)

_SETS = {"training": "functions of training", "new": "new functions"}  # of the prompts
_RAVENTOS = "arXiv 2306.15063, Figure 2"
_MEMORISES = "mean squared distance from ridge regression over the sum of those from it and dMMSE"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Compare each run with dMMSE and ridge regression on `settings.prompts` prompts of its own
    functions and as many of new ones. ConfigError for a task other than noisy_linear with
    distinct_functions.

    Each of the `groups` has for both sets of functions, `training` and `new`, means over all
    numbers of examples and over the variance of y: `error`, the model's at b, `error_dmmse` and
    `error_ridge`; `to_dmmse` and `to_ridge`, the mean squared difference of predictions; and
    `memorises`, to_ridge over the sum of both: 1 for dMMSE itself, 0 for ridge regression.
    `looped_over_standard` is, by number of functions, the error of the looped model over that of
    the standard one on new functions.
    """
    groups, errors = [], dict[tuple[str, Any], Floats]()
    for group in grouped(runs):
        task, points = group.task, group.config.task.points
        if not isinstance(task, NoisyLinear) or task.renormalize or not task.distinct_functions:
            raise ConfigError(
                "task",
                "must be noisy_linear with renormalize=false and distinct_functions, got "
                f"{task.name} with {task.distinct_functions}",
            )
        generator = torch.Generator().manual_seed(settings.seed)
        of_training = task.sample(generator, settings.prompts, points)
        new = evaluation_prompts(task, settings.prompts, points, settings.seed)
        training, _ = _compared(group, task, of_training, settings)
        on_new, errors[group.family, task.distinct_functions] = _compared(
            group, task, new, settings
        )
        found = {"label": group.label, "family": group.family, "functions": task.distinct_functions}
        groups.append({**found, "training": training, "new": on_new})
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "looped_over_standard": looped_over_standard(errors, settings),
        "panels": _panels(groups),
    }


def _compared(
    group: SeedGroup, task: NoisyLinear, prompts: Prompts, settings: EvaluationConfig
) -> tuple[dict[str, Estimate], Floats]:
    """The estimates on some prompts, and the model's errors, [seeds, prompts]."""
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    dmmse = discrete_posterior(xs, ys, xs, task.functions().double().numpy(), task.noise_std)
    by_ridge = ridge(xs, ys, xs, task.noise_std**2)
    models = unrolled(group, prompts, settings)[:, -1]

    def differences(first: Floats, second: Floats) -> Floats:
        return np.square(first - second).mean(-1) / task.divisor

    values = {
        "error": differences(models, ys),
        "to_dmmse": differences(models, dmmse),
        "to_ridge": differences(models, by_ridge),
        "error_dmmse": differences(dmmse[None], ys),
        "error_ridge": differences(by_ridge[None], ys),
    }
    found = {name: estimate([each], settings, log=True) for name, each in values.items()}
    both = np.stack((values["to_ridge"], values["to_dmmse"]), axis=-1)
    found["memorises"] = estimate(
        [both], settings, lambda means: means[0][..., 0] / means[0].sum(-1)
    )
    return found, values["error"]


def _panels(groups: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """How far models have memorised, and their errors, by the number of functions."""
    counts = sorted({group["functions"] for group in groups})
    nothing = Estimate(math.nan, math.nan, math.nan, 0)

    def curve(label: str, kind: str, of: Sequence[Mapping[str, Any]], part: str, key: str) -> Curve:
        rows = {group["functions"]: group[part][key] for group in of}
        return Curve.of(label, kind, band_of([rows.get(n, nothing) for n in counts]))

    memorises, errors = list[Curve](), list[Curve]()
    for family in dict.fromkeys(group["family"] for group in groups):
        own = [group for group in groups if group["family"] == family]
        for part, label in _SETS.items():
            for key, curves in (("memorises", memorises), ("error", errors)):
                curves.append(curve(f"{family}, {label}", family, own, part, key))
    for solver, label in (("dmmse", "dMMSE"), ("ridge", "ridge regression")):
        line = curve(f"{label}, new functions", solver, groups, "new", f"error_{solver}")
        errors.append(replace(line, name=solver))
    title = "by the number of functions in training"
    how_near = ("distinct functions", "1: like dMMSE, 0: like ridge regression")
    error = ("distinct functions", SQUARED_ERROR)
    return [
        Panel("diversity-memorises", title, *how_near, counts, memorises, log="x"),
        Panel("diversity-error", title, *error, counts, errors, log="xy"),
    ]


claim(
    "few_functions_are_memorised",
    "A looped model that saw few functions in training treats new ones as these: it predicts like "
    "the posterior mean among them (dMMSE), not like ridge regression.",
    source=_RAVENTOS,
    quantity=_MEMORISES,
    line=0.5,  # as far from the one as from the other
    holds_if="above",
    published="below the threshold of task diversity models are nearer to dMMSE",
)(lambda evidence: _memorises(evidence, min))

claim(
    "many_functions_are_left_behind",
    "A looped model that saw many functions in training solves new ones like ridge regression, "
    "though the posterior mean among those of training would be the better predictor of these.",
    source=_RAVENTOS,
    quantity=_MEMORISES,
    line=0.5,
    holds_if="below",
    published="above the threshold of task diversity models are nearer to ridge regression",
)(lambda evidence: _memorises(evidence, max))


@claim(
    "looped_needs_no_more_functions",
    "After training on the second-least number of functions a looped model errs no more on new "
    "functions than a standard one.",
    source="arXiv 2306.15063 for standard models; 2311.12424, Figure 5, for few prompts",
    quantity="error on new functions of the looped model over that of the standard one",
    line=1.0,
    holds_if="below",
)
def needs_no_more_functions(evidence: Evidence) -> Estimate:
    ratios = evidence.result("diversity")["looped_over_standard"]
    counts = sorted(map(int, ratios))
    if len(counts) < 3:
        raise NotMeasured("looped and standard models of at least three numbers of functions")
    both_families(evidence, distinct_functions=counts[1])
    return Estimate.read(ratios[str(counts[1])])


def _memorises(evidence: Evidence, choose: Callable[..., Any]) -> Estimate:
    """How far the looped models of the fewest (min) or the most functions (max) memorised."""
    groups = measured_groups(evidence, "diversity", family="looped")
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    group = choose(groups, key=lambda group: group["functions"])
    evidence.where(family="looped", distinct_functions=group["functions"])
    return Estimate.read(group["new"]["memorises"])
