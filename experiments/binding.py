"""What a plateau is, asked by training with three kinds of prompts.

In one y must be brought to its x. In one the tokens carry both. In one a head, set by hand, brings
y to its x from the first step.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate, ratio_of
from looplab.show.panel import Curve, Panel, file_name
from looplab.training.run_folder.run import Run

from .evidence import Evidence, Trainings, after, at_b, differing, of_runs, over_examples
from .plateau import LEAVES, SHIFTS, Quantities, followed, optimizer_of
from .question import Result, estimate, first_at_most

HEAD = "interleaved, a head by hand"
_KINDS = {"interleaved": "interleaved", "pairs": "pairs", HEAD: "head"}  # of curves
_SHARES = {"tenth": 0.1, "half": LEAVES}  # of the error's fall
_COMPARED = (("pairs", "interleaved"), (HEAD, "interleaved"), (HEAD, "pairs"))


class Course(NamedTuple):
    """What the snapshots of some seeds show after these `steps`, [seeds, prompts, steps]; `zero`
    and `least` are the error of predicting zero and the least of all courses of the task."""

    quantities: Quantities
    steps: Sequence[int]
    zero: float
    least: float

    def step_at(self, mean: Quantities, share: float) -> Floats:
        """The step at which a share of the error's fall is done in a mean [..., steps]; the last
        where it never is."""
        index = first_at_most(mean.error, self.zero - share * (self.zero - self.least))
        # A fall that is not done by the last step counts as done there.
        index = np.nan_to_num(index, nan=len(self.steps) - 1)
        return np.asarray(np.interp(index, np.arange(len(self.steps)), self.steps))


class Setup(NamedTuple):
    """What runs have in common that are compared by their tokens."""

    task: str
    family: str
    optimizer: str


Courses = dict[Setup, dict[str, Course]]  # by tokens


def tokens_of(config: Config) -> str:
    """What the tokens of a run are, in words."""
    return HEAD if config.training.previous_token_head else config.model.tokens


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
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
    groups = []
    for setup, by_tokens in courses.items():
        for tokens, course in by_tokens.items():
            group: Result = setup._asdict()
            group["tokens"] = tokens
            for name, share in _SHARES.items():
                group[name] = _steps([[course]], share, settings)
            group["attention"] = estimate([course.quantities.attention[..., -1]], settings)
            group["steps"] = list(course.steps)
            group["by_step"] = course.quantities.by_step(settings)
            groups.append(group)
    return {"groups": groups, "ratios": _ratios(courses, settings)}


def _ratios(courses: Courses, settings: EvaluationConfig) -> dict[str, Estimate]:
    """The `ratios` of `measure`."""
    optimizers = list(dict.fromkeys(setup.optimizer for setup in courses))
    ratios = {}
    for (above, below), (name, share) in product(_COMPARED, _SHARES.items()):
        key = f"{above} over {below}, {name}"
        for optimizer in ("", *optimizers):  # "": all of them
            rows = []
            # A row for each task, family and optimiser that has both kinds of tokens.
            for setup, by_tokens in courses.items():
                has_both = {above, below} <= by_tokens.keys()
                if has_both and setup.optimizer.startswith(optimizer):
                    rows.append([by_tokens[above], by_tokens[below]])
            if rows:
                key_of_optimizer = f"{key}, {optimizer}" if optimizer else key
                ratios[key_of_optimizer] = _steps(rows, share, settings)
    rows = []
    for setup, adam in courses.items():
        if setup.optimizer != "adam":
            continue
        muon = courses.get(setup._replace(optimizer="muon"), {})
        if {"pairs", "interleaved"} <= adam.keys() & muon.keys():
            # A row's signs alternate: (pairs / interleaved) of Adam over that of Muon.
            rows.append([adam["pairs"], adam["interleaved"], muon["interleaved"], muon["pairs"]])
    if rows:
        ratios["adam over muon"] = _steps(rows, LEAVES, settings)
    return ratios


def panels(result: Result) -> list[Panel]:
    """The error, and the attention, by the step: one picture of each for each task."""
    by_setup: dict[Setup, list[Result]] = {}
    for group in result["groups"]:
        setup = Setup(group["task"], group["family"], group["optimizer"])
        by_setup.setdefault(setup, []).append(group)
    drawn = []
    for quantity, label, log in (
        ("error", SQUARED_ERROR, "y"),
        ("attention", "attention at y to its own x", ""),
    ):
        for (task, family, optimizer), groups in by_setup.items():
            curves = []
            for group in groups:
                tokens = group["tokens"]
                curves.append(Curve.of(tokens, _KINDS[tokens], group["by_step"][quantity]))
            picture = f"binding-{quantity}-{file_name(task)}"
            title = f"{task.replace('_', ' ')}, {family}, {optimizer.capitalize()}"
            name = f"{picture}-{family}-{optimizer}"
            axes = ("training step", label)
            steps = groups[0]["steps"]
            drawn.append(Panel(name, title, *axes, steps, curves, log=log, picture=picture))
    return drawn


def _courses(runs: Sequence[Run], settings: EvaluationConfig) -> Courses:
    """The courses of all runs; see `followed`."""
    courses: Courses = {}
    for task in dict.fromkeys(run.config.task.name for run in runs):
        runs_of_task = [run for run in runs if run.config.task.name == task]
        steps, by_config = followed(runs_of_task, settings)
        _, first = by_config[0]
        # One fall for all runs of a task, from predicting zero to the least error of any.
        zero = float(first.zero.mean())
        least = min(float(shown.error.mean((0, 1)).min()) for _, shown in by_config)
        for config, shown in by_config:
            setup = Setup(task, config.model.family, optimizer_of(config))
            by_tokens = courses.setdefault(setup, {})
            by_tokens[tokens_of(config)] = Course(shown, steps, zero, least)
    return courses


def _steps(rows: Sequence[Sequence[Course]], share: float, settings: EvaluationConfig) -> Estimate:
    """The step at which a share of the fall is done, of rows of one course; of longer rows that of
    the first, third, … over those of the others; the geometric mean over the rows."""
    courses = []
    signs = []  # of logarithms
    for row in rows:
        for index, course in enumerate(row):
            courses.append(course)
            signs.append((-1) ** index)

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = []
        for course, sign, mean in zip(courses, signs, means, strict=True):
            # In logarithms; a course that is done at step 0 counts as done at step 1.
            step = np.maximum(course.step_at(Quantities.of(mean), share), 1)
            logs.append(sign * np.log(step))
        return np.asarray(np.exp(np.sum(logs, axis=0) / len(rows)))

    columns = [course.quantities.columns for course in courses]
    return estimate(columns, settings, statistic, log=True)


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
