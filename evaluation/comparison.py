"""Several runs of one task side by side, on the same prompts, with paired intervals.

result, settings = compared([run, other], EvaluationConfig(), {"prompts": 320})
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.tasks.language.task import Language
from looplab.training.run_folder.run import Run

from .bootstrap import Band, Floats
from .evaluate_run import changed, evaluated
from .evaluation import Evaluation, OfModel, OfTask
from .groups import grouped, labels_of
from .kept import Arrays
from .plain import Fields, Plain, part_of
from .remarks import remarks
from .results import intervals_by
from .statistics import interval_over_seeds


@dataclass(frozen=True, kw_only=True)
class MinusFirst(Plain):
    """A run's errors less the first run's, paired by prompt or block."""

    by_examples: Band  # of the models, of each k
    bits_per_byte: Band | None = None  # of a text's task, one number


@dataclass(frozen=True, kw_only=True)
class ComparedRun(OfModel):
    """A run of a comparison."""

    seed: int  # of its training
    remarks: Sequence[str]
    minus_first: MinusFirst
    # Of a text's task: one number, at the loops that errors by examples are read at.
    bits_per_byte: Band | None = None


@dataclass(frozen=True, kw_only=True)
class ComparedCurve(Plain):
    """Runs that differ in their seed alone, with intervals over seeds and prompts."""

    runs: Sequence[str]  # their names
    style: str
    b: int
    by_examples: Band  # the models' errors, of each k
    by_loop: Band
    minus_first: Band  # the errors by examples less the first curve's


@dataclass(frozen=True, kw_only=True)
class Comparison(OfTask):
    """Runs on the same prompts, as comparison.json has them."""

    named: bool  # whether the settings name the solvers
    runs: Mapping[str, ComparedRun]  # by the names of their folders
    curves: Mapping[str, ComparedCurve]  # by what sets each apart, in words
    remarks: Sequence[str] = ()  # on several runs


def compared(
    runs: Sequence[Run], settings: EvaluationConfig, changes: Fields, device: str = "auto"
) -> tuple[Comparison, EvaluationConfig]:
    """Every run evaluated on the same prompts and compared with the first, of which nothing is
    drawn; and the settings with these changes. Arguments and errors as of `compare`."""
    _check(runs)
    for run in runs:
        settings = changed(settings, changes, run.config)
    intervals = intervals_by(settings)
    # The same prompts for all: errors are paired by their rows.
    members = [_Member(run, *evaluated(run, settings, device)) for run in runs]
    first = members[0]
    compared_runs = {}
    for member in members:
        less = intervals(member.arrays["model"] - first.arrays["model"])
        minus_first = MinusFirst(by_examples=less)
        bits = None
        if "held_out" in member.arrays:
            bits = intervals(member.bits)
            minus_first = replace(minus_first, bits_per_byte=intervals(member.bits - first.bits))
        compared_runs[_name(member.run)] = ComparedRun(
            **part_of(OfModel, member.evaluation),
            seed=member.run.config.seed,
            remarks=remarks(member.run),
            minus_first=minus_first,
            bits_per_byte=bits,
        )
    result = Comparison(
        **part_of(OfTask, first.evaluation),
        named=settings.baselines is not None,
        runs=compared_runs,
        curves=_curves(members, settings),
    )
    return result, settings


@dataclass(frozen=True)
class _Member:
    """A run with its evaluation, and the errors of that prompt by prompt."""

    run: Run
    evaluation: Evaluation
    arrays: Arrays

    @property
    def bits(self) -> Floats:
        """The bits per byte of the held-out text's blocks [blocks, 1], at the loops that errors by
        examples are read at; after b loops with early exit."""
        loops = self.evaluation.loops
        if loops == "auto":
            loops = self.evaluation.b
        # Columns are loops from 1 on; a slice keeps the axis.
        return self.arrays["held_out"][:, loops - 1 : loops]


def _curves(members: Sequence[_Member], settings: EvaluationConfig) -> dict[str, ComparedCurve]:
    """By label the runs of each curve, its errors by examples and by loop, and the former less the
    first curve's, with intervals over seeds and prompts.

    Runs that differ in nothing, not even their seed, have their folders' names.
    """

    def stacked(key: str, curve: Sequence[_Member]) -> Floats:
        """The errors of a curve's runs, [seeds, prompts, x], as far as the shortest reaches."""
        arrays = [member.arrays[key] for member in curve]
        length = min(array.shape[1] for array in arrays)
        return np.stack([array[:, :length] for array in arrays]).astype(np.float64)

    interval = partial(interval_over_seeds, resamples=settings.resamples, seed=settings.seed)
    curves = dict[str, ComparedCurve]()
    first: Floats | None = None
    for label, curve in _by_label(members).items():
        errors = stacked("model", curve)
        if first is None:
            first = errors
        by_examples = interval([errors], log=True)
        by_loop = interval([stacked("by_loop", curve)], log=True)
        # No logarithm: a difference has either sign.
        # The first less itself is 0 in each resample, not that of two groups of seeds.
        pair = [errors] if errors is first else [errors, first]
        minus_first = interval(pair, lambda means: means[0] - means[-1])
        curves[label] = ComparedCurve(
            runs=[_name(member.run) for member in curve],
            style=curve[0].evaluation.style,
            b=curve[0].evaluation.b,
            by_examples=by_examples.to_json(),
            by_loop=by_loop.to_json(),
            minus_first=minus_first.to_json(),
        )
    return curves


def _by_label(members: Sequence[_Member]) -> dict[str, list[_Member]]:
    """The runs of each curve, by its label."""
    runs = [member.run for member in members]
    groups = grouped(runs)
    labels = labels_of(groups)
    curves = {}
    for group, label in zip(groups, labels, strict=True):
        if labels.count(label) > 1:
            label = _name(group.runs[0])
        curves[label] = [members[runs.index(run)] for run in group.runs]
    return curves


def _check(runs: Sequence[Run]) -> None:
    names = [_name(run) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("runs", f"names {name} more than once")
    first = _task_settings(runs[0])
    for name, run in zip(names, runs, strict=True):
        other = _task_settings(run)
        for key in first | other:
            value = first.get(key)
            its_value = other.get(key)
            if value != its_value:
                problem = f"{key} is {value} in {names[0]} and {its_value} in {name}"
                raise ConfigError("runs", f"cannot be compared: {problem}")


def _name(run: Run) -> str:
    return run.path.resolve().name


def _task_settings(run: Run) -> Fields:
    """A run's task and its settings, except the numbers of distinct prompts and functions."""
    task = run.config.task
    settings = {"task": task.name, "task.points": task.points}
    for key, value in asdict(run.task).items():
        if "distinct_" not in key:
            settings[f"task.{key}"] = value
    if isinstance(run.task, Language):
        # Each run keeps its tokeniser in its own folder, so that the paths differ.
        settings["task.tokens"] = run.task.tokenizer.identity()
    return settings
