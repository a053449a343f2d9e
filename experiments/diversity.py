"""Models trained on finitely many functions: nearer to the posterior mean among these (dMMSE), or
to ridge regression, which is optimal for new functions (arXiv 2306.15063)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.groups import grouped
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.show.panel import Curve, Panel
from looplab.tasks import Prompts
from looplab.tasks.least_squares import ridge
from looplab.tasks.linear import NoisyLinear
from looplab.tasks.posteriors import discrete_posterior
from looplab.training.run_folder.run import Run

from .evidence import Evidence, groups_of_answer, of_runs
from .question import Result, estimate, looped_over_standard, prompts_of, unrolled

_SETS = {"training": "functions of training", "new": "new functions"}  # of the prompts
_SOLVERS = {"dmmse": "dMMSE", "ridge": "ridge regression"}
_NOT_TRAINED = dict.fromkeys(Interval._fields)  # in place of an estimate


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Compare each run with dMMSE and ridge regression on `settings.prompts` prompts of its own
    functions and as many of new ones; runs of noisy_linear with distinct_functions.

    Each of the `groups` has for both sets of functions, `training` and `new`, means over all
    numbers of examples: `error`, the model's at b over the variance of y, those of the solvers, and
    `memorises`, the squared distance from ridge regression over the sum of those from it and dMMSE:
    1 for dMMSE itself, 0 for ridge regression. `looped_over_standard` is, by number of functions,
    the error of the looped model over that of the standard one on new functions.
    """
    groups = []
    on_new: dict[tuple[str, Any], Floats] = {}
    for group in grouped(runs):
        task = group.runs[0].task
        assert isinstance(task, NoisyLinear)
        generator = torch.Generator().manual_seed(settings.seed)
        # Sampled by the task, prompts have functions of training; those of the evaluation are new.
        prompts = {
            "training": task.sample(generator, settings.prompts, group.config.task.points),
            "new": prompts_of(group.runs[0], settings),
        }
        numbers: Result = {"family": group.family, "functions": task.distinct_functions}
        for name, drawn in prompts.items():
            models = unrolled(group, drawn, settings)[:, -1]
            distances = _distances(models, drawn, task)
            to_solvers = np.stack((distances["to_ridge"], distances["to_dmmse"]), axis=-1)
            numbers[name] = {"memorises": estimate([to_solvers], settings, _memorised_share)}
            for model in ("error", *_SOLVERS):
                numbers[name][model] = estimate([distances[model]], settings, log=True)
            on_new[group.family, task.distinct_functions] = distances["error"]
        groups.append(numbers)
    return {
        "groups": groups,
        "looped_over_standard": looped_over_standard(on_new, settings),
    }


def _distances(models: Floats, prompts: Prompts, task: NoisyLinear) -> dict[str, Floats]:
    """Mean squared distances over the variance of y, [seeds, prompts]: of the models from both
    solvers, and of the models (`error`) and the solvers from y."""
    xs = prompts.xs.double().numpy()
    ys = prompts.ys.double().numpy()
    functions = task.functions().double().numpy()
    # Solvers are the same beside all seeds: [1, prompts, n].
    by_dmmse = discrete_posterior(xs, ys, xs, functions, task.noise_std)[None]
    by_ridge = ridge(xs, ys, xs, task.noise_std**2)[None]
    differences = {
        "to_ridge": models - by_ridge,
        "to_dmmse": models - by_dmmse,
        "error": models - ys,
        "dmmse": by_dmmse - ys,
        "ridge": by_ridge - ys,
    }
    return {name: np.square(d).mean(-1) / task.divisor for name, d in differences.items()}


def _memorised_share(means: Sequence[Floats]) -> Floats:
    """The share of the distance from ridge regression in the sum of both, [..., 2]."""
    return means[0][..., 0] / means[0].sum(-1)


def panels(result: Result) -> list[Panel]:
    """The degree to which models have memorised, and their errors, by the number of functions."""
    groups = result["groups"]
    title = "by the number of functions in training"
    x_label = "distinct functions"
    degree = "1: like dMMSE, 0: like ridge regression"
    counts = sorted({group["functions"] for group in groups})
    memorises = _by_family(groups, counts, "memorises")
    errors = _by_family(groups, counts, "error")
    for name, label in _SOLVERS.items():
        values = _by_count(groups, counts, "new", name)
        errors.append(Curve.of(f"{label}, new functions", name, values, name=name))
    return [
        Panel("diversity-memorises", title, x_label, degree, counts, memorises, log="x"),
        Panel("diversity-error", title, x_label, SQUARED_ERROR, counts, errors, log="xy"),
    ]


def _by_family(groups: Sequence[Any], counts: Sequence[int], key: str) -> list[Curve]:
    """A number of each family's models on both sets of functions, by their number in training."""
    curves = []
    for family in dict.fromkeys(group["family"] for group in groups):
        of_family = [group for group in groups if group["family"] == family]
        for prompts, label in _SETS.items():
            values = _by_count(of_family, counts, prompts, key)
            curves.append(Curve.of(f"{family}, {label}", family, values))
    return curves


def _by_count(groups: Sequence[Any], counts: Sequence[int], prompts: str, key: str) -> Any:
    """The estimates of groups on these prompts, by their number of functions, as a curve."""
    known = {group["functions"]: group[prompts][key] for group in groups}
    rows = [known.get(count, _NOT_TRAINED) for count in counts]
    curve = {}
    for end in Interval._fields:
        curve[end] = [row[end] for row in rows]
    return curve


def fewest_functions_memorised(evidence: Evidence) -> Estimate:
    """The degree to which the looped models of the fewest functions memorised them."""
    return _memorised(evidence, _looped(evidence)[0])


def most_functions_memorised(evidence: Evidence) -> Estimate:
    """The degree to which the looped models of the most functions memorised them."""
    return _memorised(evidence, _looped(evidence)[-1])


def over_standard_of_second_fewest(evidence: Evidence) -> Estimate:
    """The error on new functions, looped over standard, of the second-least number of functions."""
    ratios = evidence.result("diversity", "looped_over_standard")
    counts = sorted(map(int, ratios))
    if len(counts) < 3:
        raise NotMeasured("looped and standard models of at least three numbers of functions")
    count = counts[1]
    names = ("diversity", "looped_over_standard", str(count))
    return of_runs(evidence, *names, distinct_functions=count)


def _looped(evidence: Evidence) -> list[Any]:
    """What was found of looped models, by their number of functions."""
    groups = groups_of_answer(evidence, "diversity", family="looped")
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    return sorted(groups, key=lambda group: group["functions"])


def _memorised(evidence: Evidence, group: Result) -> Estimate:
    """The degree to which a group's models memorised their functions."""
    evidence.where(family="looped", distinct_functions=group["functions"])
    return Estimate.read(group["new"]["memorises"])
