"""What claims are judged from: the runs of an experiment and the results of its measures.

Of runs they take the groups of one configuration's seeds, and their errors as arrays.

looped = group(evidence, family="looped", name="linear")
last(looped)                            # [seeds, prompts], the last query's error
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import Group, grouped
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap, ratio_of
from looplab.training.assemble import build_task
from looplab.training.validation import evaluation_prompts

_WORST = 0.9  # of the error of predicting zero
_PROMPTS = 1280  # on which that error is measured
Trainings = Group[EvaluatedRun]  # of one configuration
Errors = Callable[[Trainings], Floats]  # [seeds, prompts]


@dataclass(frozen=True)
class Evidence:
    """The measurements of an experiment: its runs, and the results of other commands (probing,
    tables, measures of runs) by name, as in their JSON files.

    `left_out` says why no claim may be judged from some of the runs; `asked` collects the runs that
    a claim asked for, these included.

    Examples
    --------
    >>> from looplab import Evidence
    >>> Evidence(results={"wide": {"moves": {"16": [0.1]}}}).result("wide")["moves"]
    {'16': [0.1]}
    """

    members: Sequence[EvaluatedRun] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[EvaluatedRun, str] = field(default_factory=dict)
    asked: list[EvaluatedRun] = field(default_factory=list, compare=False)

    def where(self, **settings: Any) -> list[EvaluatedRun]:
        """The runs with these settings, given by the last part of their key (`family="looped"`,
        `b=12`, `name="linear"` for the task), in the order of their seeds.

        Raises NotMeasured if there is none."""

        def matches(config: Config) -> bool:
            values = flatten(config_to_mapping(config)).items()
            by_last_part = [(key.rpartition(".")[2], value) for key, value in values]
            return all(item in by_last_part for item in settings.items())

        asked = [member for member in self.members if matches(member.config)]
        self.asked.extend(member for member in asked if member not in self.asked)
        finished = [member for member in asked if member not in self.left_out]
        if not finished:
            raise NotMeasured(f"no finished run with {_in_words(settings)}")
        return sorted(finished, key=lambda member: member.config.seed)

    @cached_property  # the same for each claim that is judged from it
    def unfinished(self) -> dict[EvaluatedRun, str]:
        """Why no claim may be judged from some of the runs."""
        reasons = {member: why_unfinished(member) for member in self.members}
        return {member: why for member, why in reasons.items() if why}

    def result(self, *names: str) -> Any:
        """The result under these names, such as ("iso_depth", "phi"); NotMeasured without it."""
        value: Any = self.results
        for name in names:
            if not isinstance(value, Mapping) or name not in value:
                raise NotMeasured(f"no result of {' '.join(names)}")
            value = value[name]
        return value


def _in_words(settings: Mapping[str, Any]) -> str:
    """'family = looped, b = 12'"""
    words = [f"{key} = {value}" for key, value in settings.items()]
    return ", ".join(words) or "any settings"


def why_unfinished(member: EvaluatedRun) -> str:
    """The reason why no claim may be judged from a run: 'training unfinished: 400 of 7,000 steps',
    or 'learned nothing: …', as its model predicts new prompts of its endless training set hardly
    better than zero does: such models match each other, and stay what they are beyond b. Empty for
    others."""
    if member.step == 0:
        return "untrained"
    config = member.config
    task = build_task(config)
    lacks = unfinished(config, task, member.step)
    if lacks:
        return ", ".join(lacks)
    errors = member.arrays.get("model_at_b")
    memorised = task.distinct_prompts or task.distinct_functions  # it may fail on new ones
    if errors is None or task.loss != "squared_error" or memorised:
        return ""
    prompts = evaluation_prompts(task, _PROMPTS, config.task.points, config.evaluation.seed)
    zero = float(prompts.ys[:, -1].square().mean()) / task.divisor  # above 1 with noise
    error = float(errors[:, -1].mean())
    if not error > _WORST * zero:
        return ""
    return f"learned nothing: error {error:.2g} at the last query, {zero:.2g} of predicting zero"


def groups(evidence: Evidence, **settings: Any) -> list[Trainings]:
    """All groups with these settings (as `Evidence.where`), the smallest models first: by layers,
    width, b and T. Raises NotMeasured if there is none."""
    runs = evidence.where(**settings)
    size = attrgetter(
        "config.model.n_layer", "config.model.n_embd", "config.loops.b", "config.loops.T"
    )
    return sorted(grouped(runs), key=size)


def group(evidence: Evidence, **settings: Any) -> Trainings:
    """The largest of the groups with these settings; of looped models, of those with one layer."""
    models = groups(evidence, **settings)
    if settings.get("family") == "looped":
        single = [model for model in models if model.config.model.n_layer == 1]
        models = single or models
    return models[-1]


def differing(
    evidence: Evidence,
    same: Callable[[Config], object],
    value: Callable[[Trainings], Any],
    *,
    least: int = 2,
    **settings: Any,
) -> list[list[Trainings]]:
    """Lists of the groups with these settings whose configurations have the same in common and that
    differ in a value, in rising order of it, at least so many values in each. Raises NotMeasured if
    there is no such list."""
    alike: dict[str, list[Trainings]] = {}
    for model in groups(evidence, **settings):
        key = repr(same(model.config))
        alike.setdefault(key, []).append(model)
    rows = []
    for models in alike.values():
        if len(set(map(value, models))) >= least:
            rows.append(sorted(models, key=value))
    if not rows:
        raise NotMeasured(f"fewer than {least} models that differ in nothing else")
    return rows


def groups_of_answer(evidence: Evidence, measure: str, **same: Any) -> list[Any]:
    """The groups that a measure found, those in which these keys have these values; NotMeasured if
    there is none."""

    def matches(values: Mapping[str, Any]) -> bool:
        return all(values[key] == value for key, value in same.items())

    matching = list(filter(matches, evidence.result(measure)["groups"]))
    if not matching:
        raise NotMeasured(f"{measure}: nothing was measured of runs with {_in_words(same)}")
    return matching


def of_group(
    evidence: Evidence, measure: str, *names: str, most: str = "", **same: Any
) -> Estimate:
    """The number that a measure found, under these names, of the group with these settings (of
    several the first, or the one with the `most` of a key), on whose runs the verdict rests."""
    matching = groups_of_answer(evidence, measure, **same)
    evidence.where(**same)
    value = matching[0]
    if most:
        value = max(matching, key=itemgetter(most))
    for name in names:
        value = value[name]
    return Estimate.read(value)


def of_runs(evidence: Evidence, *names: str, **settings: Any) -> Estimate:
    """The number that a measure found under these names, of the runs with these settings, on which
    the verdict rests."""
    evidence.where(**settings)
    return Estimate.read(evidence.result(*names))


def bits(model: Trainings, times: float = 1.0) -> Floats:
    """Bits per byte of each block of the held-out text after so many times b loops (or all layers
    of a standard model), [seeds, blocks]."""
    loop = round(times * model.b)
    return model.errors("held_out")[..., loop - 1]


def last(model: Trainings, name: str = "model_at_b") -> Floats:
    """The error of the last query, [seeds, prompts]."""
    return model.errors(name)[..., -1]


def over_examples(model: Trainings, name: str = "model_at_b") -> Floats:
    """The mean error over all numbers of examples, [seeds, prompts]."""
    return model.errors(name).mean(-1)


def loop_errors(model: Trainings) -> Floats:
    """The last query's error after each loop, of texts bits per byte, [seeds, prompts, loops]."""
    return model.errors("held_out" if model.config.task.is_text else "by_loop")


def at_loop(model: Trainings, loop: int) -> Floats:
    """The last query's error after a loop, counted from 1, [seeds, prompts]; of texts `bits`."""
    errors = loop_errors(model)
    followed = errors.shape[-1]
    if followed < loop:
        label = model.runs[0].label
        asked = f"evaluation.max_loops={loop}"
        raise NotMeasured(f"{label} was followed for {followed} loops of {loop}: {asked}")
    return errors[..., loop - 1]


def after(times: float) -> Errors:
    """The last query's error after so many times the loops of training, one at least."""
    return lambda model: at_loop(model, max(int(times * model.b), 1))


at_b = after(1)


def ratio(pairs: Sequence[tuple[Trainings, Trainings]], errors_of: Errors) -> Estimate:
    """The ratio of two groups' mean errors, [seeds, prompts], paired by prompt: the geometric mean
    over several pairs."""
    for pair in pairs:
        check_same_prompts(*pair)
    return ratio_of([errors_of(model) for model in chain(*pairs)])


def within(
    rows: Sequence[Sequence[Trainings]], above: Sequence[Errors], below: Sequence[Errors]
) -> Estimate:
    """The ratio of two errors of the same runs (of several the geometric means), so that seeds are
    paired too: in a row of one group its ratio, in one of two the first's over the second's; the
    geometric mean over the rows."""
    for row in rows:
        check_same_prompts(*row)
    values = []  # of each model [seeds, prompts, above and below]
    signs = []
    for row in rows:
        for place, model in enumerate(row):
            errors = [errors_of(model) for errors_of in (*above, *below)]
            values.append(np.stack(errors, -1))
            signs.append(1 if place == 0 else -1)

    def log_ratio(mean: Floats) -> Floats:
        logs = np.log(mean)
        over = logs[..., : len(above)].mean(-1)
        under = logs[..., len(above) :].mean(-1)
        return np.asarray(over - under)

    def statistic(means: Sequence[Floats]) -> Floats:
        signed = [sign * log_ratio(mean) for sign, mean in zip(signs, means, strict=True)]
        return np.exp(np.sum(signed, axis=0) / len(rows))

    return hierarchical_bootstrap(values, statistic, log=True)


def largest_rise(means: Sequence[Floats]) -> Floats:
    """Return the largest of errors [..., loops] over the least of an earlier loop, 1 at least."""
    least = np.minimum.accumulate(means[0], axis=-1)
    rises = means[0][..., 1:] / least[..., :-1]
    return np.maximum(rises.max(-1, initial=1.0), 1.0)


# The least favourable of several estimates: a claim on it holds only if it holds on all of them.
# One that is not a number comes first.
def highest(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate of the greatest upper end."""

    def upper_end(estimate: Estimate) -> float:
        return float(np.nan_to_num(estimate.high, nan=np.inf))

    return max(estimates, key=upper_end)


def counted(value: float, steps: int | None = None) -> Estimate:
    """Return the estimate of a number that is counted, and so has no interval."""
    return Estimate(value, value, value, 1, steps=steps, note="counted: no interval")


def lowest(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate of the least lower end."""

    def lower_end(estimate: Estimate) -> float:
        return float(np.nan_to_num(estimate.low, nan=-np.inf))

    return min(estimates, key=lower_end)


def farthest_from_one(estimates: Iterable[Estimate]) -> Estimate:
    """Return the ratio whose interval reaches farthest from 1, in logarithms."""

    def reach(estimate: Estimate) -> float:
        ends = np.abs(np.log([estimate.low, estimate.high]))
        return float(np.nan_to_num(ends, nan=np.inf).max())

    return max(estimates, key=reach)


def check_same_prompts(*models: Trainings) -> None:
    """Raises NotMeasured for groups that were evaluated on prompts of different tasks."""
    task = models[0].config.task
    if any(model.config.task != task for model in models):
        labels = " and ".join(model.runs[0].label for model in models)
        raise NotMeasured(f"{labels} were evaluated on different prompts")
