"""Several runs of one task side by side, on the same prompts, with paired intervals.

result, settings = compared([run, other], EvaluationConfig(), {"prompts": 320})
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.training.run_folder.run import Run

from .bootstrap import Band, Floats
from .evaluate_run import changed, measured
from .evaluation import Evaluation, OfModel, OfTask
from .groups import grouped, labels_of
from .kept import Arrays
from .plain import Plain, part_of
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
    runs: Sequence[Run], settings: EvaluationConfig, changes: dict[str, Any], device: str = "auto"
) -> tuple[Comparison, EvaluationConfig]:
    """Every run evaluated on the same prompts and compared with the first, of which nothing is
    drawn; and the settings with these changes. Arguments and errors as of `compare`."""
    _check(runs)
    for run in runs:
        settings = changed(settings, changes, run.config)
    found = [measured(run, settings, device) for run in runs]
    entries, intervals = dict[str, ComparedRun](), intervals_by(settings)
    first, of_first = found[0]
    for run, (evaluation, arrays) in zip(runs, found, strict=True):
        bits = less_bits = None
        if "held_out" in arrays:
            of_blocks = _bits(evaluation, arrays)
            bits = intervals(of_blocks)
            less_bits = intervals(of_blocks - _bits(first, of_first))
        less = intervals(arrays["model"] - of_first["model"])
        entries[_name(run)] = ComparedRun(
            **part_of(OfModel, evaluation),
            seed=run.config.seed,
            remarks=remarks(run),
            minus_first=MinusFirst(by_examples=less, bits_per_byte=less_bits),
            bits_per_byte=bits,
        )
    result = Comparison(
        **part_of(OfTask, first),
        named=settings.baselines is not None,
        runs=entries,
        curves=_curves(runs, entries, [arrays for _, arrays in found], settings),
    )
    return result, settings


def _curves(
    runs: Sequence[Run],
    entries: Mapping[str, ComparedRun],
    arrays: Sequence[Arrays],
    settings: EvaluationConfig,
) -> dict[str, ComparedCurve]:
    """By label the runs of each curve, its errors by examples and by loop, and the former less the
    first curve's, with intervals over seeds and prompts. Runs that differ in nothing, not even
    their seed, have their folders' names."""
    groups = grouped(runs)
    labels = labels_of(groups)
    members: dict[str, list[int]] = {}
    for group, label in zip(groups, labels, strict=True):
        own = label if labels.count(label) == 1 else _name(group.runs[0])
        members[own] = [runs.index(run) for run in group.runs]

    def stacked(key: str, of: Sequence[int]) -> Floats:
        length = min(arrays[index][key].shape[1] for index in of)
        return np.stack([arrays[index][key][:, :length] for index in of]).astype(np.float64)

    def band(errors: Floats) -> Band:
        return interval_over_seeds(
            [errors], log=True, resamples=settings.resamples, seed=settings.seed
        ).to_json()

    def difference(errors: Floats, less: Floats) -> Band:
        return interval_over_seeds(
            [errors, less],
            lambda means: means[0] - means[1],
            resamples=settings.resamples,
            seed=settings.seed,
        ).to_json()

    found, names = dict[str, ComparedCurve](), [*entries]
    for label, of in members.items():
        first, errors = next(iter(members.values())), stacked("model", of)
        run = entries[names[of[0]]]
        found[label] = ComparedCurve(
            runs=[names[index] for index in of],
            style=run.style,
            b=run.b,
            by_examples=band(errors),
            by_loop=band(stacked("by_loop", of)),
            minus_first=difference(errors, stacked("model", first)),
        )
    return found


def _bits(evaluation: Evaluation, arrays: Arrays) -> Floats:
    """The bits per byte of the held-out text's blocks [blocks, 1], at the loops that errors by
    examples are read at; after b loops with early exit."""
    loops = evaluation.b if evaluation.loops == "auto" else evaluation.loops
    return arrays["held_out"][:, loops - 1 : loops]


def _check(runs: Sequence[Run]) -> None:
    names = [_name(run) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("runs", f"names {name} more than once")
    first, *others = map(_task_settings, runs)
    for name, other in zip(names[1:], others, strict=True):
        for key in first | other:
            if (value := first.get(key)) != (its := other.get(key)):
                problem = f"{key} is {value} in {names[0]} and {its} in {name}"
                raise ConfigError("runs", f"cannot be compared: {problem}")


def _name(run: Run) -> str:
    return run.path.resolve().name


def _task_settings(run: Run) -> dict[str, Any]:
    """A run's task and its settings, except the numbers of distinct prompts and functions."""
    task = run.config.task
    own = {f"task.{key}": each for key, each in asdict(run.task).items() if "distinct_" not in key}
    return {"task": task.name, "task.points": task.points, **own}
