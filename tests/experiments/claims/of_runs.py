"""Results of the measures of runs with a chosen quantity."""

import math
from collections.abc import Callable
from typing import Any

from looplab.experiments.claims import Estimate, Evidence

from .synthetic import Made, evidence, seeds


def number(value: float) -> dict[str, Any]:
    return Estimate(value, value, value, 2).plain()


def reads(result: Callable[[dict[str, Any]], dict[str, Any]], **settings: Any) -> Made:
    """Runs with these settings, and the results of a measure that hold the value."""
    return lambda value: evidence(seeds(**settings), **result(number(value)))


def groups(name: str, **group: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A measure with one group, in which `...` stands for the value."""

    def filled(part: Any, value: Any) -> Any:
        if isinstance(part, dict):
            return {key: filled(each, value) for key, each in part.items()}
        return value if part is ... else part

    return lambda value: {name: {"groups": [filled(group, value)]}}


def diverse(value: float) -> Evidence:
    """Looped and standard models of 4, 32 and 256 functions: those of 4 have the value of what is
    memorised, those of 32 the ratio of errors."""
    counts = (4, 32, 256)
    other = number(math.nan)  # of what a claim must not read
    groups = [
        {"family": "looped", "functions": count,
         "new": {"memorises": number(value) if count == 4 else other}}
        for count in counts
    ]  # fmt: skip
    ratios = {str(count): number(value) if count == 32 else other for count in counts}
    runs = [
        seeds(family=each, distinct_functions=count)
        for each in ("looped", "standard")
        for count in counts
    ]
    return evidence(*runs, diversity={"groups": groups, "looped_over_standard": ratios})


def shifted_optimizers(ratio: float) -> Evidence:
    """Runs of Muon that err `ratio` times as much as Adam's on every shift, and as much without."""
    shifts = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")
    return evidence(
        seeds(optimizer="muon", shifted=dict.fromkeys(shifts, 0.2 * ratio)),
        seeds(shifted=dict.fromkeys(shifts, 0.2)),
    )


def raced(key: str) -> Made:
    """A race of two recipes on one task, of which the ratio of the seconds, or the last one's error
    over the target, has the value."""

    def made(value: float) -> Evidence:
        ratio, error = (value, 0.5) if key == "ratio" else (3.0, value)
        rows = [race_row("paper", 10 * ratio, 0.1), race_row("fast", 10, 0.1 * error)]
        race = {"task": "linear", "target": 0.1, "rows": rows}
        return evidence(seeds(), time_to_quality={"races": [race]})

    return made


def race_row(label: str, seconds: float, last: float, high: float = 0.1) -> dict[str, Any]:
    """A recipe of a race: three seeds that are at the error `high` after about so many seconds, and
    end at about the error `last` after twice as many."""
    trainings = {
        str(seed): [
            {"step": 50 * part, "cpu_seconds": part * seconds * factor, "flops": 1.0 * part,
             "error": error, "high": end}
            for part, error, end in ((1, high, high), (2, last * factor, high))
        ]
        for seed, factor in enumerate((0.99, 1.0, 1.01))
    }  # fmt: skip
    return {"label": label, "trainings": trainings}
