"""Models trained on finitely many functions: nearer to the posterior mean among these (dMMSE), or
to ridge regression, which is optimal for new functions (arXiv 2306.15063)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.groups import grouped
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.show.panel import Curve, Panel
from looplab.tasks.least_squares import ridge
from looplab.tasks.linear import NoisyLinear
from looplab.tasks.posteriors import discrete_posterior
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, measured_groups, of_runs
from .measuring import estimate, looped_over_standard, unrolled

_SETS = {"training": "functions of training", "new": "new functions"}  # of the prompts
_SOLVERS = {"dmmse": "dMMSE", "ridge": "ridge regression"}
_NOT_TRAINED = dict.fromkeys(Interval._fields)  # in place of an estimate


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Compare each run with dMMSE and ridge regression on `settings.prompts` prompts of its own
    functions and as many of new ones; runs of noisy_linear with distinct_functions.

    Each of the `groups` has for both sets of functions, `training` and `new`, means over all
    numbers of examples: `error`, the model's at b over the variance of y, those of the solvers, and
    `memorises`, the squared distance from ridge regression over the sum of those from it and dMMSE:
    1 for dMMSE itself, 0 for ridge regression. `looped_over_standard` is, by number of functions,
    the error of the looped model over that of the standard one on new functions.
    """
    groups, on_new = [], dict[tuple[str, Any], Floats]()
    for group in grouped(runs):
        task, points = group.runs[0].task, group.config.task.points
        assert isinstance(task, NoisyLinear)
        generator = torch.Generator().manual_seed(settings.seed)
        prompts = {
            "training": task.sample(generator, settings.prompts, points),
            "new": evaluation_prompts(task, settings.prompts, points, settings.seed),
        }
        found, functions = dict[str, dict[str, Estimate]](), task.functions().double().numpy()
        for name, drawn in prompts.items():
            xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
            dmmse = discrete_posterior(xs, ys, xs, functions, task.noise_std)[None]
            by_ridge = ridge(xs, ys, xs, task.noise_std**2)[None]
            models = unrolled(group, drawn, settings)[:, -1]
            to_ridge, to_dmmse, *errors = (  # [seeds, prompts]
                np.square(a - b).mean(-1) / task.divisor
                for a, b in (
                    *((models, by_ridge), (models, dmmse)),
                    *((models, ys), (dmmse, ys), (by_ridge, ys)),
                )
            )
            both = np.stack((to_ridge, to_dmmse), axis=-1)
            share = estimate([both], settings, lambda means: means[0][..., 0] / means[0].sum(-1))
            found[name] = {"memorises": share}
            for of, values in zip(("error", *_SOLVERS), errors, strict=True):
                found[name][of] = estimate([values], settings, log=True)
            on_new[group.family, task.distinct_functions] = errors[0]
        groups.append({"family": group.family, "functions": task.distinct_functions, **found})
    return {
        "groups": groups,
        "looped_over_standard": looped_over_standard(on_new, settings),
    }


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The degree to which models have memorised, and their errors, by the number of functions."""
    return [_panel("memorises", found["groups"]), _panel("error", found["groups"])]


def _panel(key: str, groups: Sequence[dict[str, Any]]) -> Panel:
    """The degree to which models have memorised, or their errors, by the number of functions."""
    counts = sorted({group["functions"] for group in groups})

    def curve(label: str, kind: str, of: Sequence[Any], part: str, key: str, **more: Any) -> Curve:
        known = {group["functions"]: group[part][key] for group in of}
        rows = [known.get(count, _NOT_TRAINED) for count in counts]
        values: Any = {name: [row[name] for row in rows] for name in Interval._fields}
        return Curve.of(label, kind, values, **more)

    curves = []
    for family in dict.fromkeys(group["family"] for group in groups):
        own = [group for group in groups if group["family"] == family]
        for part, label in _SETS.items():
            curves.append(curve(f"{family}, {label}", family, own, part, key))
    title, x = "by the number of functions in training", "distinct functions"
    if key == "memorises":
        y = "1: like dMMSE, 0: like ridge regression"
        return Panel("diversity-memorises", title, x, y, counts, curves, log="x")
    for name, label in _SOLVERS.items():
        curves.append(curve(f"{label}, new functions", name, groups, "new", name, name=name))
    return Panel("diversity-error", title, x, SQUARED_ERROR, counts, curves, log="xy")


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
    groups = measured_groups(evidence, "diversity", family="looped")
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    return sorted(groups, key=lambda group: group["functions"])


def _memorised(evidence: Evidence, group: Mapping[str, Any]) -> Estimate:
    evidence.where(family="looped", distinct_functions=group["functions"])
    return Estimate.read(group["new"]["memorises"])
