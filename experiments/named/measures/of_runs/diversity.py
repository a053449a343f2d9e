"""Models trained on finitely many functions: nearer to the posterior mean among these (dMMSE), or
to ridge regression, which is optimal for new functions (arXiv 2306.15063).

result = measure(runs, EvaluationConfig(prompts=512))       # runs of task.distinct_functions=…
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.baselines.discrete import discrete_posterior
from reloop.evaluation.baselines.linear import ridge
from reloop.evaluation.bootstrap import Floats
from reloop.evaluation.errors import evaluation_prompts
from reloop.experiments.named.results import Curve, Panel
from reloop.tasks import Prompts, Task
from reloop.tasks.linear import NoisyLinear
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run

from .common import EstimateJson, Group, estimate, grouped, prompt_counts, resampled, unrolled

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


class DiversityResult(TypedDict):
    """All groups; by number of functions, `looped_over_standard`, the error of the looped model
    over that of the standard one on new functions; and the pictures."""

    prompts: int
    groups: list[DiversityGroup]
    looped_over_standard: dict[str, EstimateJson]
    panels: list[Panel]


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
        str(count): estimate(_paired(errors["looped", count], values), settings.seed)
        for (family, count), values in errors.items()
        if family == "standard" and ("looped", count) in errors
    }
    return {
        "prompts": settings.prompts,
        "groups": groups,
        "looped_over_standard": ratios,
        "panels": _panels(groups),
    }


def _group(group: Group, settings: EvaluationConfig) -> tuple[DiversityGroup, Floats]:
    """And the errors on new functions, [resamples + 1, seeds]."""
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
    group: Group, task: NoisyLinear, prompts: Prompts, settings: EvaluationConfig
) -> tuple[Diversity, Floats]:
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    solvers = {
        "dmmse": discrete_posterior(xs, ys, xs, _weights(task), task.noise_std),
        "ridge": ridge(xs, ys, xs, task.noise_std**2),
    }
    loops = trained_loops(group.runs[0].config)
    models = np.stack([unrolled(r, prompts, loops, settings.batch_size)[-1] for r in group.runs])
    counts = prompt_counts(len(ys), settings.resamples, settings.seed)

    def means(first: Floats, second: Floats) -> Floats:
        squares = np.square(first - second).mean(-1) / task.divisor  # [seeds, prompts]
        return resampled(counts, np.broadcast_to(squares, (len(models), len(ys))))

    errors = means(models, ys)
    to = {name: means(models, values) for name, values in solvers.items()}
    seed = settings.seed
    return {
        "error": estimate(errors, seed),
        "to_dmmse": estimate(to["dmmse"], seed),
        "to_ridge": estimate(to["ridge"], seed),
        "memorises": estimate(to["ridge"] / (to["dmmse"] + to["ridge"]), seed),
        "error_dmmse": estimate(means(solvers["dmmse"][None], ys), seed),
        "error_ridge": estimate(means(solvers["ridge"][None], ys), seed),
    }, errors


def _weights(task: Task) -> Floats:
    return np.asarray(task.functions().double().numpy(), np.float64)


def _paired(looped: Floats, standard: Floats) -> Floats:
    """Ratios of the first, seed by seed, to the mean of the second over its seeds: the prompts of
    a resample are the same in both."""
    return looped / standard.mean(1, keepdims=True)


def _panels(groups: Sequence[DiversityGroup]) -> list[Panel]:
    """How far models have memorised, and their errors, by the number of functions."""
    counts = sorted({group["functions"] for group in groups})
    memorises: Panel = _panel("memorises", "1: like dMMSE, 0: like ridge regression", counts)
    error: Panel = _panel("error", "squared error over the variance of y", counts)
    error["log_y"] = True
    for family in dict.fromkeys(group["family"] for group in groups):
        for part in _SETS:
            found = {g["functions"]: g for g in groups if g["family"] == family}
            by_count = {n: g["new"] if part == "new" else g["training"] for n, g in found.items()}
            name, label = f"{family}_{part}", f"{family}, {_LABELS[part]}"
            rows: Mapping[int, Diversity] = by_count
            memorises["curves"].append(
                _line(name, label, family, [_of(rows, n, "memorises") for n in counts])
            )
            error["curves"].append(
                _line(name, label, family, [_of(rows, n, "error") for n in counts])
            )
    for solver, label in (("dmmse", "dMMSE"), ("ridge", "ridge regression")):
        first = {g["functions"]: g["new"] for g in groups}
        key = f"error_{solver}"
        error["curves"].append(
            _line(solver, f"{label}, new functions", solver, [_of(first, n, key) for n in counts])
        )
    return [memorises, error]


def _panel(name: str, y_label: str, counts: Sequence[int]) -> Panel:
    return {
        "name": f"diversity_{name}",
        "title": "by the number of functions in training",
        "x_label": "distinct functions",
        "y_label": y_label,
        "x": [float(count) for count in counts],
        "log_x": True,
        "log_y": False,
        "curves": [],
        "levels": {},
    }


def _of(rows: Mapping[int, Diversity], count: int, key: str) -> EstimateJson:
    nothing: EstimateJson = {"mean": None, "low": None, "high": None, "seeds": 0}
    return rows[count][key] if count in rows else nothing  # type: ignore[literal-required]


def _line(name: str, label: str, kind: str, values: Sequence[EstimateJson]) -> Curve:
    mean, low, high = ([value[part] for value in values] for part in ("mean", "low", "high"))
    return Curve(name=name, label=label, kind=kind, mean=mean, low=low, high=high)
