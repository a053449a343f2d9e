"""The results of a grid as tables: each run's errors, means over seeds with intervals, and tests
between settings on the same prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError
from looplab.evaluation import evaluate_run, load_run
from looplab.evaluation.bootstrap import Floats, bootstrap
from looplab.evaluation.remarks import remarks
from looplab.evaluation.tables import Table
from looplab.training.run_folder.run import RunFolder

from ..claims import Estimate, Measured
from ..statistics import hierarchical_bootstrap, hierarchical_test
from .grid import Grid, Member

_RESAMPLES, _SEED = 1000, 2024
_MOST_TESTS = 300
Setting = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Result:
    """A member of a grid, its state, its errors, which are empty unless it is finished, and the key
    of its evaluation."""

    member: Member
    state: str
    measured: Measured
    evaluation: str = ""  # its key

    @property
    def errors(self) -> NDArray[np.floating] | None:
        """Of each prompt by k at b loops, [prompts, k]; None where the run is not finished."""
        return self.measured.arrays.get("model_at_b")


def results_of(grid: Grid) -> list[Result]:
    """Each member with the errors of its evaluation, measured now where they are not stored."""
    return [_result(member) for member in grid.members]


def _result(member: Member) -> Result:
    status = RunFolder(member.path).status()
    state, label = str(status["state"]), setting_name(member.setting)
    nothing = Measured(label, member.config, int(status["step"]), {}, path=str(member.path))
    if member.command.action == "train" and state != "finished":
        return Result(member, state, nothing)
    try:
        run = load_run(member.path)
    except RunError as error:
        return Result(member, f"cannot be read: {error}", nothing)
    settings, device = member.config.evaluation, member.config.device
    summary, arrays = evaluate_run.measured(run, settings, device)
    labels = {"": summary["labels"]} | {name: s["labels"] for name, s in summary["shifts"].items()}
    measured = Measured(
        label, member.config, run.step, arrays, labels, str(member.path), tuple(remarks(run))
    )
    return Result(member, state, measured, summary["key"])


class Summary(NamedTuple):
    """A setting, its seeds, and its error at the last k and mean over k, each with a 90 % interval
    over seeds and prompts."""

    setting: Setting
    seeds: int
    last: Estimate
    mean: Estimate


def summaries(results: Sequence[Result]) -> list[Summary]:
    """A summary for each setting that has a finished run."""
    found = []
    for setting, errors in by_setting(results).items():
        last = hierarchical_bootstrap([errors[:, :, -1:]], _first)
        mean = hierarchical_bootstrap([errors.mean(2, keepdims=True)], _first)
        found.append(Summary(setting, len(errors), last, mean))
    return found


class PairedTest(NamedTuple):
    """Two settings that differ in one, `key`: the ratio of the first's error at the last k to the
    second's with its 90 % interval, its p-value, and that by Holm for all tests of the grid."""

    first: Setting
    second: Setting
    key: str
    ratio: Estimate
    p: float
    p_holm: float


def paired_tests(results: Sequence[Result]) -> list[PairedTest]:
    """Tests between the settings that differ in one value and were measured on the same prompts: at
    most 300, of the first settings."""
    errors = by_setting(results)
    # What the prompts of an evaluation depend on.
    prompts = {
        result.member.setting: (config.task, config.evaluation.prompts, config.evaluation.seed)
        for result in results
        for config in [result.member.config]
    }
    found: list[PairedTest] = []
    for first, second in combinations(errors, 2):
        keys = [key for (key, one), (_, other) in zip(first, second, strict=True) if one != other]
        if len(keys) != 1 or prompts[first] != prompts[second] or len(found) == _MOST_TESTS:
            continue
        groups = [errors[first][:, :, -1:], errors[second][:, :, -1:]]
        ratio = hierarchical_bootstrap(groups, _ratio, log=True)
        p = hierarchical_test(groups, _ratio, log=True)
        found.append(PairedTest(first, second, keys[0], ratio, p, math.nan))
    adjusted = _holm([test.p for test in found])
    return [test._replace(p_holm=p) for test, p in zip(found, adjusted, strict=True)]


def by_setting(results: Sequence[Result]) -> dict[Setting, Floats]:
    """The errors of the finished runs of each setting, [seeds, prompts, k]."""
    found: dict[Setting, list[NDArray[np.floating]]] = {}
    for result in results:
        if result.errors is not None:
            found.setdefault(result.member.setting, []).append(result.errors)
    return {
        setting: np.stack([each[:, : min(e.shape[1] for e in errors)] for each in errors]).astype(
            np.float64
        )
        for setting, errors in found.items()
    }


def member_rows(results: Sequence[Result], varied: Sequence[str]) -> Table:
    """A row for each run and k, as plain numbers: its error with the 90 % interval over prompts."""
    head = ["run", "state", "step", *varied, "k", "error", "low", "high", "remarks"]
    rows = []
    for result in results:
        values = [value for _, value in result.member.values]
        start = [str(result.member.path), result.state, str(result.measured.step), *values]
        if result.errors is None:
            rows.append(start)
            continue
        interval = bootstrap(result.errors, _RESAMPLES, _SEED)
        note = "; ".join(result.measured.remarks)
        for k, numbers in enumerate(zip(*interval, strict=True)):
            rows.append([*start, str(k), *(f"{number:.6g}" for number in numbers), note])
    return Table(head, rows)


def setting_rows(found: Sequence[Summary], keys: Sequence[str]) -> Table:
    """A row for each setting, as plain numbers."""
    names = [f"{of}{part}" for of in ("last", "mean_over_k") for part in ("", "_low", "_high")]
    rows = [
        [
            *(value for _, value in each.setting),
            str(each.seeds),
            *(f"{number:.6g}" for estimate in (each.last, each.mean) for number in estimate[:3]),
            each.last.note,
        ]
        for each in found
    ]
    return Table([*keys, "seeds", *names, "note"], rows)


def paired_test_rows(found: Sequence[PairedTest]) -> Table:
    """A row for each test, as plain numbers."""
    head = ["differ in", "first", "second", "ratio", "low", "high", "p", "p, Holm"]
    rows = [
        [
            *(test.key, setting_name(test.first), setting_name(test.second)),
            *(f"{number:.4g}" for number in (*test.ratio[:3], test.p, test.p_holm)),
        ]
        for test in found
    ]
    return Table(head, rows)


def setting_name(setting: Setting) -> str:
    """A setting's values as words; 'all' where the members differ in nothing but the seed."""
    return " ".join(f"{key}={value}" for key, value in setting) or "all"


def _first(means: Sequence[Floats]) -> Floats:
    return means[0][..., 0]


def _ratio(means: Sequence[Floats]) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return means[0][..., 0] / means[1][..., 0]


def _holm(values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number (Holm 1979); nan stays nan."""
    order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), values[i]))
    count = sum(not math.isnan(value) for value in values)
    highest, adjusted = 0.0, [math.nan] * len(values)
    for rank, index in enumerate(order[:count]):
        highest = max(highest, min(1.0, (count - rank) * values[index]))
        adjusted[index] = highest
    return adjusted
