"""Models of several function classes (arXiv 2311.00871).

They are asked on prompts of each class, beside models of that class alone, and on sums of functions
of all classes, of which training had none.
"""

from collections.abc import Mapping, Sequence
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

from .evidence import Evidence, measured_groups, of_runs
from .measuring import band, estimate, looped_over_standard, ratio, unrolled

_SUMS = "sums of functions of all classes"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
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
    groups = sorted(grouped(runs), key=lambda group: group.runs[0].task.name != "mixture")
    mixture, points = groups[0].runs[0].task, groups[0].config.task.points
    assert isinstance(mixture, Mixture)
    tasks = {name: replace(mixture, mixed=(name,)) for name in mixture.mixed}
    tasks[_SUMS] = replace(mixture, combined=True)
    errors = dict[tuple[str, str], dict[str, Floats]]()
    by_examples: dict[str, list[dict[str, Any]]] = {name: [] for name in tasks}
    for group in groups:
        trained, family = group.runs[0].task.name, group.family
        errors[family, trained] = {}  # of the last query, [seeds, prompts]
        for name in tasks if trained == "mixture" else [trained]:
            prompts = evaluation_prompts(tasks[name], settings.prompts, points, settings.seed)
            scale = (
                group.runs[0].task.divisor ** 0.5
            )  # a class's outputs alone are not of variance 1
            scaled = Prompts(prompts.xs, prompts.ys * scale)
            models = unrolled(group, scaled, settings)[:, -1]
            values = np.square(models / scale - prompts.ys.double().numpy())
            errors[family, trained][name] = values[..., -1]
            about = {"family": family, "trained_on": trained}
            by_examples[name].append({**about, "band": band([values], settings)})
    found, means = [], dict[tuple[str, str], Floats]()
    for (family, trained), own in errors.items():
        if trained == "mixture":
            alone = {
                name: of[name] for (f, name), of in errors.items() if f == family and name in own
            }
            found.append(_result(family, own, alone, settings))
            means[family, "mixture"] = np.mean([own[name] for name in mixture.mixed], axis=0)
    families = looped_over_standard(means, settings)
    both = {"looped_over_standard": families["mixture"]} if families else {}
    return {"groups": found, **both, "errors": by_examples}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Errors on each class, and on the sums, by the number of examples."""
    drawn = []
    for name, models in found["errors"].items():
        curves = []
        for each in models:
            of = "the mixture" if each["trained_on"] == "mixture" else "this class alone"
            label = f"{each['family']}, trained on {of}"
            curves.append(Curve.of(label, each["family"], each["band"]))
        title = name if name == _SUMS else f"functions of class {name.replace('_', ' ')}"
        file = f"mixture-{file_name(name)}"
        drawn.append(by_examples(file, title, SQUARED_ERROR, curves))
    return drawn


def _result(
    family: str, own: dict[str, Floats], alone: dict[str, Floats], settings: EvaluationConfig
) -> dict[str, Any]:
    """The numbers of a family's mixture, from its errors on each class and on the sums; `alone` are
    those of the family's models of one class."""
    classes = np.mean([values for name, values in own.items() if name != _SUMS], axis=0)
    both = np.stack((own[_SUMS], classes), axis=-1)

    def worst(means: Sequence[Floats]) -> Floats:
        return np.asarray((means[0] / np.stack(means[1:], axis=-1)).max(-1))

    found = {
        "family": family,
        "over_alone": {name: ratio(own[name], each, settings) for name, each in alone.items()},
        "sums": estimate([both], settings, lambda m: m[0][..., 0] / m[0][..., 1], log=True),
    }
    if len(alone) == len(own) - 1:  # each class
        on_classes = np.stack([own[name] for name in alone], axis=-1)
        found["worst"] = estimate([on_classes, *alone.values()], settings, worst, log=True)
    return found


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
    group = measured_groups(evidence, "mixture", family="looped")[0]
    evidence.where(family="looped", name="mixture")
    return group
