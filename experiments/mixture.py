"""Models of several function classes (arXiv 2311.00871).

They are asked on prompts of each class, beside models of that class alone, and on sums of functions
of all classes, of which training had none.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.groups import grouped
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.show.builders import by_examples
from looplab.show.panel import Curve, Panel, file_name
from looplab.tasks import Prompts
from looplab.tasks.mixture import Mixture
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, groups_of_answer, of_runs
from .question import Result, band, estimate, looped_over_standard, paired_ratio, ratio, unrolled

_SUMS = "sums of functions of all classes"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Errors at b over the variance of y of each run, on `settings.prompts` prompts of each class,
    and on their sums; runs of one mixture, and of its classes alone.

    Each of the `groups` of the mixture has, at the last query, `over_alone`, by class its error
    over that of the runs of the same family that were trained on this class alone; `worst`, the
    largest of these ratios, where there are such runs of each class; and `sums`, the error on sums
    of functions of all classes over the mean of the classes'. `looped_over_standard` is the looped
    mixture's error over the standard one's, means over classes, where there are both. `errors` has,
    by class and for the sums, the errors by the number of examples of every model asked on it, with
    its family and the task that it was `trained_on`.
    """
    # The mixture comes first: its task has the classes of all.
    groups = sorted(grouped(runs), key=lambda group: group.runs[0].task.name != "mixture")
    mixture = groups[0].runs[0].task
    points = groups[0].config.task.points
    assert isinstance(mixture, Mixture)
    tasks = {name: replace(mixture, mixed=(name,)) for name in mixture.mixed}
    tasks[_SUMS] = replace(mixture, combined=True)
    errors: dict[tuple[str, str], dict[str, Floats]] = {}  # by family and task of training
    by_examples: dict[str, list[Result]] = {name: [] for name in tasks}
    for group in groups:
        trained_on = group.runs[0].task.name
        last = {}  # errors of the last query, [seeds, prompts]
        # A class's outputs alone are not of variance 1.
        scale = group.runs[0].task.divisor ** 0.5
        for name in tasks if trained_on == "mixture" else [trained_on]:
            prompts = evaluation_prompts(tasks[name], settings.prompts, points, settings.seed)
            scaled = Prompts(prompts.xs, prompts.ys * scale)
            models = unrolled(group, scaled, settings)[:, -1]
            values = np.square(models / scale - prompts.ys.double().numpy())
            last[name] = values[..., -1]
            about = {"family": group.family, "trained_on": trained_on}
            by_examples[name].append(about | {"band": band([values], settings)})
        errors[group.family, trained_on] = last
    of_mixture = []
    means: dict[tuple[str, str], Floats] = {}
    for (family, trained_on), last in errors.items():
        if trained_on != "mixture":
            continue
        alone = {}
        for (other, name), of_class in errors.items():
            if other == family and name in last:
                alone[name] = of_class[name]
        of_mixture.append(_result(family, last, alone, settings))
        means[family, "mixture"] = np.mean([last[name] for name in mixture.mixed], axis=0)
    result: Result = {"groups": of_mixture}
    families = looped_over_standard(means, settings)
    if families:
        result["looped_over_standard"] = families["mixture"]
    return result | {"errors": by_examples}


def panels(result: Result) -> list[Panel]:
    """Errors on each class, and on the sums, by the number of examples."""
    drawn = []
    for name, models in result["errors"].items():
        curves = []
        for model in models:
            family = model["family"]
            classes = "the mixture" if model["trained_on"] == "mixture" else "this class alone"
            curves.append(Curve.of(f"{family}, trained on {classes}", family, model["band"]))
        title = name if name == _SUMS else f"functions of class {name.replace('_', ' ')}"
        file = f"mixture-{file_name(name)}"
        drawn.append(by_examples(file, title, SQUARED_ERROR, curves))
    return drawn


def _result(
    family: str, last: dict[str, Floats], alone: dict[str, Floats], settings: EvaluationConfig
) -> Result:
    """The numbers of a family's mixture, from its errors of the last query on each class and on the
    sums; `alone` are those of the family's models of one class."""
    classes = np.mean([values for name, values in last.items() if name != _SUMS], axis=0)
    both = np.stack((last[_SUMS], classes), axis=-1)

    def worst(means: Sequence[Floats]) -> Floats:
        """The largest ratio over classes."""
        return np.asarray((means[0] / np.stack(means[1:], axis=-1)).max(-1))

    result: Result = {"family": family}
    result["over_alone"] = {name: ratio(last[name], alone[name], settings) for name in alone}
    result["sums"] = estimate([both], settings, paired_ratio, log=True)
    if len(alone) == len(last) - 1:  # each class
        on_classes = np.stack([last[name] for name in alone], axis=-1)
        result["worst"] = estimate([on_classes, *alone.values()], settings, worst, log=True)
    return result


def worst_over_alone(evidence: Evidence) -> Estimate:
    """The largest ratio over classes of the error to that of a model of the class alone."""
    group = _of_mixture(evidence)
    for name in group["over_alone"]:
        evidence.where(family="looped", name=name)
    if "worst" not in group:
        raise NotMeasured("looped models of each class alone")
    return Estimate.read(group["worst"])


def over_standard(evidence: Evidence) -> Estimate:
    """The last query's error of the looped model over that of the standard one, means over
    classes."""
    return of_runs(evidence, "mixture", "looped_over_standard", name="mixture")


def sums_over_classes(evidence: Evidence) -> Estimate:
    """The error on sums of functions over the mean of the errors on the classes."""
    return Estimate.read(_of_mixture(evidence)["sums"])


def _of_mixture(evidence: Evidence) -> Any:
    """The looped model of the mixture."""
    group = groups_of_answer(evidence, "mixture", family="looped")[0]
    evidence.where(family="looped", name="mixture")
    return group
