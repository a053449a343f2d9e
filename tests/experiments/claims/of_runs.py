"""Results of the measures of runs with a chosen quantity."""

from __future__ import annotations

import math
from typing import Any

from looplab.experiments.claims import Estimate, Evidence

from .synthetic import DIMS, Made, evidence, seeds


def number(value: float) -> dict[str, Any]:
    return Estimate(value, value, value, 2).plain()


_OTHER = number(math.nan)  # of what a claim must not read


def iterates(method: str, key: str) -> Made:
    """A looped model beside the iterates of a method: the one with the most loops counts."""

    def made(value: float) -> Evidence:
        methods = {name: {key: _OTHER} for name in ("newton", "gradient_descent")}
        groups = [
            {"family": "looped", "b": 4, "methods": methods},
            {"family": "looped", "b": 8, "methods": methods | {method: {key: number(value)}}},
            {"family": "standard", "b": 12, "methods": methods},
        ]
        return evidence(seeds(), iterates={"groups": groups})

    return made


def preconditioned(key: str) -> Made:
    """Loops of linear attention, of which the one with the fewest loops counts."""
    return lambda value: evidence(
        seeds(injection="linear_attention", n_embd=DIMS, n_head=1),
        preconditioner={"groups": [{"b": 12, key: _OTHER}, {"b": 8, key: number(value)}]},
    )


def conditioned(key: str, family: str = "looped") -> Made:
    """Models of ill-conditioned inputs, of which the one with the most loops or layers counts."""

    def made(value: float) -> Evidence:
        rises = {
            (each, b): number(value) if (each, b, key) == (family, 8, "rise") else _OTHER
            for each in ("looped", "standard")
            for b in (4, 8)
        }
        groups = [{"family": each, "b": b, "rise": rise} for (each, b), rise in rises.items()]
        found = {"groups": groups, "gain_ratio": number(value) if key == "gain_ratio" else _OTHER}
        return evidence(seeds(family=family), conditioning=found)

    return made


def diverse(functions: int) -> Made:
    """Models of finitely many functions, of which those of `functions` have the value."""

    def made(value: float) -> Evidence:
        counts = (32, 4, 256)
        numbers = {count: number(value) if count == functions else _OTHER for count in counts}
        groups = [
            {"family": "looped", "functions": count, "new": {"memorises": numbers[count]}}
            for count in counts
        ]
        groups.append({"family": "standard", "functions": 2, "new": {"memorises": _OTHER}})
        ratios = {str(count): numbers[count] for count in counts}
        runs = [
            seeds(family=family, distinct_functions=count)
            for family in ("looped", "standard")
            for count in counts
        ]
        return evidence(*runs, diversity={"groups": groups, "looped_over_standard": ratios})

    return made


def mixed(key: str) -> Made:
    """Models of a mixture of two classes, and of each alone; `key` has the value."""

    def made(value: float) -> Evidence:
        classes = ("linear", "relu_network")
        group: dict[str, Any] = {"family": "looped", "over_alone": dict.fromkeys(classes, _OTHER),
                                 "worst": _OTHER, "sums": _OTHER}  # fmt: skip
        found: dict[str, Any] = {"groups": [group], "looped_over_standard": _OTHER}
        (group if key in group else found)[key] = number(value)
        runs = [seeds(family=family, task="mixture") for family in ("looped", "standard")]
        return evidence(*runs, *(seeds(task=name) for name in classes), mixture=found)

    return made


def plateau(key: str) -> Made:
    """Runs of Muon and of Adam, of which Adam's, or their ratio, have the value."""

    def made(value: float) -> Evidence:
        adam = {"optimizer": "adam", key: number(value)}
        found = {"groups": [{"optimizer": "muon"}, adam], "muon_over_adam": number(value)}
        return evidence(seeds(), seeds(optimizer="muon"), plateau=found)

    return made


def shifted_optimizers(ratio: float) -> Evidence:
    """Runs of Muon that err `ratio` times as much as Adam's on every shift, and as much without."""
    shifts = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")
    return evidence(
        seeds(optimizer="muon", shifted=dict.fromkeys(shifts, 0.2 * ratio)),
        seeds(shifted=dict.fromkeys(shifts, 0.2)),
    )


def longer(key: str, block: str = "llama") -> Made:
    """Looped and standard models on longer prompts: the growth of the looped one's error, or their
    ratio, has the value."""

    def made(value: float) -> Evidence:
        group = {"family": "looped", "block": block, "growth": {"2": number(value)}}
        ratios = {block: number(value)} if key == "looped_over_standard" else {}
        runs = [seeds(family=family, block=block) for family in ("looped", "standard")]
        return evidence(*runs, length={"groups": [group], "looped_over_standard": ratios})

    return made


def halting(key: str) -> Made:
    """A looped model of linear functions, beside one of another task."""

    def made(value: float) -> Evidence:
        groups = [{"task": "sparse_linear"}, {"task": "linear", key: number(value)}]
        return evidence(seeds(), seeds(task="sparse_linear"), halting={"groups": groups})

    return made


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
