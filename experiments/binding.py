"""What a plateau is, asked by training with three kinds of prompts.

In one y must be brought to its x. In one the tokens carry both. In one a head, set by hand, brings
y to its x from the first step.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate, ratio_of
from looplab.show.panel import Curve, Panel, file_name
from looplab.training.run_folder.run import Run

from .evidence import Evidence, Trainings, after, at_b, differing, of_runs, over_examples
from .measuring import estimate, first_at_most
from .plateau import LEAVES, QUANTITIES, SHIFTS, by_step, followed

HEAD = "interleaved, a head by hand"
_KINDS = {"interleaved": "interleaved", "pairs": "pairs", HEAD: "head"}  # of curves
_ERROR, _ATTENTION, _, _ZERO = range(len(QUANTITIES))
_SHARES = {"tenth": 0.1, "half": LEAVES}  # of the error's fall
_COMPARED = (("pairs", "interleaved"), (HEAD, "interleaved"), (HEAD, "pairs"))


class Course(NamedTuple):
    """What the snapshots of some seeds show after these `steps`, [seeds, prompts, steps, 4]; `zero`
    and `least` are the error of predicting zero and the least of all courses of the task."""

    values: Floats
    steps: Sequence[int]
    zero: float
    least: float

    def step_at(self, mean: Floats, share: float) -> Floats:
        """The step at which a share of the error's fall is done in a mean [..., steps, 4]; the last
        where it never is."""
        place = first_at_most(mean[..., _ERROR], self.zero - share * (self.zero - self.least))
        place = np.nan_to_num(place, nan=len(self.steps) - 1)
        return np.asarray(np.interp(place, np.arange(len(self.steps)), self.steps))


Courses = dict[tuple[str, str, str], dict[str, Course]]  # by task, family, optimiser; by tokens


def tokens_of(config: Config) -> str:
    """What the tokens of a run are, in words."""
    return HEAD if config.training.previous_token_head else config.model.tokens


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Measure the snapshots of runs that differ in task, family, optimiser, tokens and seed, on
    `settings.prompts` prompts of each task. RunError for runs of a task without three common steps.

    Each of the `groups` has its task, family, optimizer and tokens; `tenth` and `half`, the step at
    which so much of the error's fall is done, from that of predicting zero to the least of all runs
    of its task; and `attention`, that at y on its own x after the last step, of the head that
    attends most to it. Its quantities after each of its `steps` are `by_step`.

    `ratios` has the steps of shares by 'TOKENS over TOKENS, SHARE', the geometric mean over tasks,
    families and optimisers, and with ', OPTIMISER' that of one; and as `adam over muon` what pairs
    over interleaved is at half of the fall with Adam over what it is with Muon.
    """
    courses = _courses(runs, settings)
    found: list[dict[str, Any]] = []
    for place, by_tokens in courses.items():
        about = dict(zip(("task", "family", "optimizer"), place, strict=True))
        for tokens, course in by_tokens.items():
            shares = {name: _steps([[course]], each, settings) for name, each in _SHARES.items()}
            last = course.values[..., -1, _ATTENTION]
            found.append(
                {
                    **about,
                    "tokens": tokens,
                    **shares,
                    "attention": estimate([last], settings),
                    "steps": list(course.steps),
                    "by_step": by_step(course.values, settings),
                }
            )
    ratios = {}
    for (one, other), (name, share) in product(_COMPARED, _SHARES.items()):
        for optimizer in ("", *dict.fromkeys(each for _, _, each in courses)):
            pairs = [
                [by_tokens[one], by_tokens[other]]
                for (_, _, own), by_tokens in courses.items()
                if own.startswith(optimizer) and {one, other} <= by_tokens.keys()
            ]
            if pairs:
                key = f"{one} over {other}, {name}" + f", {optimizer}" * bool(optimizer)
                ratios[key] = _steps(pairs, share, settings)
    both = [
        [adam["pairs"], adam["interleaved"], muon["interleaved"], muon["pairs"]]
        for (task, family, optimizer), adam in courses.items()
        if optimizer == "adam" and (muon := courses.get((task, family, "muon")))
        if {"pairs", "interleaved"} <= adam.keys() & muon.keys()
    ]
    if both:
        ratios["adam over muon"] = _steps(both, LEAVES, settings)
    return {"groups": found, "ratios": ratios}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The error, and the attention, by the step: one picture of each for each task."""
    places: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for group in found["groups"]:
        place = group["task"], group["family"], group["optimizer"]
        places.setdefault(place, []).append(group)
    drawn = []
    for quantity, label, log in (
        ("error", SQUARED_ERROR, "y"),
        ("attention", "attention at y to its own x", ""),
    ):
        for (task, family, optimizer), groups in places.items():
            curves = [
                Curve.of(group["tokens"], _KINDS[group["tokens"]], group["by_step"][quantity])
                for group in groups
            ]
            picture = f"binding-{quantity}-{file_name(task)}"
            title = f"{task.replace('_', ' ')}, {family}, {optimizer.capitalize()}"
            name = f"{picture}-{family}-{optimizer}"
            axes = ("training step", label)
            steps = groups[0]["steps"]
            drawn.append(Panel(name, title, *axes, steps, curves, log=log, picture=picture))
    return drawn


def _courses(runs: Sequence[Run], settings: EvaluationConfig) -> Courses:
    courses: Courses = {}
    for task in dict.fromkeys(run.config.task.name for run in runs):
        own = [run for run in runs if run.config.task.name == task]
        steps, found = followed(own, settings)
        zero = float(found[0][1][..., _ZERO].mean())
        least = min(float(values[..., _ERROR].mean((0, 1)).min()) for _, values in found)
        for config, values in found:
            optimizer = config.training.optimizer.removesuffix("w")
            by_tokens = courses.setdefault((task, config.model.family, optimizer), {})
            by_tokens[tokens_of(config)] = Course(values, steps, zero, least)
    return courses


def _steps(rows: Sequence[Sequence[Course]], share: float, settings: EvaluationConfig) -> Estimate:
    """The step at which a share of the fall is done, of rows of one course; of longer rows that of
    the first, third, … over those of the others; the geometric mean over the rows."""
    flat = [(course, (-1) ** place) for row in rows for place, course in enumerate(row)]

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = [
            sign * np.log(np.maximum(course.step_at(mean, share), 1))
            for (course, sign), mean in zip(flat, means, strict=True)
        ]
        return np.asarray(np.exp(np.sum(logs, axis=0) / len(rows)))

    return estimate([course.values for course, _ in flat], settings, statistic, log=True)


def steps_ratio(evidence: Evidence, ratio: str) -> Estimate:
    """The ratio of this name, of steps at which half of the error's fall is done."""
    return of_runs(evidence, "binding", "ratios", ratio)


def _twins(evidence: Evidence) -> list[list[Trainings]]:
    """Looped models on interleaved tokens, each with the one on pairs that is alike in all else."""
    return differing(
        evidence,
        lambda config: (config.task, config.training.optimizer),
        lambda group: group.config.model.tokens,
        family="looped",
        previous_token_head=False,
    )


def pairs_over_interleaved_on_shifts(evidence: Evidence) -> Estimate:
    """The error on shifted inputs over that on inputs of training, pairs over interleaved: the
    geometric mean over shifts and twins."""
    parts = []
    for (interleaved, pairs), shift in product(_twins(evidence), SHIFTS):
        moved = f"{shift}/model_at_b"
        parts += [over_examples(pairs, moved), over_examples(pairs)]
        parts += [over_examples(interleaved), over_examples(interleaved, moved)]
    return ratio_of(parts)


def pairs_over_interleaved_beyond_b(evidence: Evidence) -> Estimate:
    """The error at 3 b over that at b, pairs over interleaved: the geometric mean over twins."""
    parts = []
    far = after(3)
    for interleaved, pairs in _twins(evidence):
        parts += [far(pairs), at_b(pairs), at_b(interleaved), far(interleaved)]
    return ratio_of(parts)
