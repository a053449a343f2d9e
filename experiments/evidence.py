"""What claims are judged from: the runs of an experiment and the results of its measures.

Of runs they take the groups of one configuration's seeds, and their errors as arrays.

looped = group(evidence, family="looped", name="linear")
last(looped)                            # [seeds, prompts], the last query's error
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.groups import Group, grouped
from looplab.evaluation.measured import Measured
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap, ratio_of
from looplab.training.assemble import build_task
from looplab.training.validation import evaluation_prompts

_WORST = 0.9  # of the error of predicting zero
_PROMPTS = 1280  # on which that error is measured
Trainings = Group[Measured]  # of one configuration
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

    members: Sequence[Measured] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[Measured, str] = field(default_factory=dict)
    asked: list[Measured] = field(default_factory=list, compare=False)

    def where(self, **settings: Any) -> list[Measured]:
        """The runs with these settings, given by the last part of their key (`family="looped"`,
        `b=12`, `name="linear"` for the task), in the order of their seeds.

        Raises NotMeasured if there is none."""

        def matches(config: Config) -> bool:
            flat = flatten(config_to_mapping(config)).items()
            own = [(key.rpartition(".")[2], value) for key, value in flat]
            return all(each in own for each in settings.items())

        asked = [each for each in self.members if matches(each.config)]
        self.asked.extend(each for each in asked if each not in self.asked)
        found = [each for each in asked if each not in self.left_out]
        if not found:
            text = ", ".join(f"{key} = {value}" for key, value in settings.items())
            raise NotMeasured(f"no finished run with {text or 'any settings'}")
        return sorted(found, key=lambda member: member.config.seed)

    @cached_property  # the same for each claim that is judged from it
    def unfinished(self) -> dict[Measured, str]:
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


def why_unfinished(member: Measured) -> str:
    """The reason why no claim may be judged from a run: 'training unfinished: 400 of 7,000 steps',
    or 'learned nothing: …', as its model predicts new prompts of its endless training set hardly
    better than zero does: such models match each other, and stay what they are beyond b. Empty for
    others."""
    if member.step == 0:
        return "untrained"
    config, task = member.config, build_task(member.config)
    if lines := unfinished(config, task, member.step):
        return ", ".join(lines)
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
    size = attrgetter("model.n_layer", "model.n_embd", "loops.b", "loops.T")
    return sorted(grouped(evidence.where(**settings)), key=lambda each: size(each.config))


def group(evidence: Evidence, **settings: Any) -> Trainings:
    """The largest of the groups with these settings; of looped models, of those with one layer."""
    found = groups(evidence, **settings)
    single = [each for each in found if each.config.model.n_layer == 1]
    return (single or found)[-1] if settings.get("family") == "looped" else found[-1]


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
    for each in groups(evidence, **settings):
        alike.setdefault(repr(same(each.config)), []).append(each)
    found = [
        sorted(each, key=value) for each in alike.values() if len({*map(value, each)}) >= least
    ]
    if not found:
        raise NotMeasured(f"fewer than {least} models that differ in nothing else")
    return found


def measured_groups(evidence: Evidence, measure: str, **same: Any) -> list[Any]:
    """The groups that a measure found, those in which these keys have these values; NotMeasured if
    there is none."""
    found = [
        each
        for each in evidence.result(measure)["groups"]
        if all(each[key] == value for key, value in same.items())
    ]
    if not found:
        text = ", ".join(f"{key} = {value}" for key, value in same.items())
        raise NotMeasured(f"{measure}: nothing was measured of runs with {text or 'any settings'}")
    return found


def of_group(
    evidence: Evidence, measure: str, *names: str, most: str = "", **same: Any
) -> Estimate:
    """The number that a measure found, under these names, of the group with these settings (of
    several the first, or the one with the `most` of a key), on whose runs the verdict rests."""
    found = measured_groups(evidence, measure, **same)
    evidence.where(**same)
    value = max(found, key=lambda group: group[most]) if most else found[0]
    for name in names:
        value = value[name]
    return Estimate.read(value)


def of_runs(evidence: Evidence, *names: str, **settings: Any) -> Estimate:
    """The number that a measure found under these names, of the runs with these settings, on which
    the verdict rests."""
    evidence.where(**settings)
    return Estimate.read(evidence.result(*names))


def bits(of: Trainings, times: float = 1.0) -> Floats:
    """Bits per byte of each block of the held-out text after so many times b loops (or all layers
    of a standard model), [seeds, blocks]."""
    return of.errors("held_out")[..., round(times * of.b) - 1]


def last(of: Trainings) -> Floats:
    """The error of the last query, [seeds, prompts]."""
    return of.errors()[..., -1]


def over_examples(of: Trainings, name: str = "model_at_b") -> Floats:
    """The mean error over all numbers of examples, [seeds, prompts]."""
    return of.errors(name).mean(-1)


def at_loop(of: Trainings, loop: int) -> Floats:
    """The last query's error after a loop, counted from 1, [seeds, prompts]."""
    found = of.errors("by_loop")
    if found.shape[-1] < loop:
        raise NotMeasured(
            f"{of.runs[0].label} was followed for {found.shape[-1]} loops of {loop}: "
            f"evaluation.max_loops={loop}"
        )
    return found[..., loop - 1]


def after(times: float) -> Errors:
    """The last query's error after so many times the loops of training, one at least."""
    return lambda of: at_loop(of, max(int(times * of.b), 1))


at_b = after(1)


def ratio(pairs: Sequence[tuple[Trainings, Trainings]], of: Errors) -> Estimate:
    """The ratio of two groups' mean errors, paired by prompt: the geometric mean over several
    pairs. `of` gives the errors [seeds, prompts]."""
    for pair in pairs:
        check_same_prompts(*pair)
    return ratio_of([of(each) for pair in pairs for each in pair])


def within(
    rows: Iterable[Sequence[Trainings]], above: Sequence[Errors], below: Sequence[Errors]
) -> Estimate:
    """The ratio of two errors of the same runs (of several the geometric means), so that seeds are
    paired too: in a row of one group its ratio, in one of two the first's over the second's; the
    geometric mean over the rows."""
    found = list(rows)
    for row in found:
        check_same_prompts(*row)
    parts = [np.stack([of(each) for of in (*above, *below)], -1) for row in found for each in row]
    signs = [1 if index == 0 else -1 for row in found for index in range(len(row))]

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = [np.log(mean) for mean in means]
        signed = [
            sign * (log[..., : len(above)].mean(-1) - log[..., len(above) :].mean(-1))
            for sign, log in zip(signs, logs, strict=True)
        ]
        return np.exp(np.sum(signed, axis=0) / len(found))

    return hierarchical_bootstrap(parts, statistic, log=True)


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


def check_same_prompts(*found: Trainings) -> None:
    """Raises NotMeasured for groups that were evaluated on prompts of different tasks."""
    if any(each.config.task != found[0].config.task for each in found):
        labels = " and ".join(each.runs[0].label for each in found)
        raise NotMeasured(f"{labels} were evaluated on different prompts")
