"""Results of the measures of runs with a chosen quantity."""

from __future__ import annotations

from typing import Any

from looplab.experiments.claims import Estimate, Evidence

from .synthetic import DIMS, Made, evidence, seeds


def number(value: float) -> dict[str, Any]:
    return Estimate(value, value, value, 2).plain()


def iterates(method: str, key: str) -> Made:
    """A looped model beside the iterates of a method."""

    def made(value: float) -> Evidence:
        methods = {method: {key: number(value)}}
        group = {"label": "looped", "family": "looped", "b": 8, "methods": methods}
        return evidence(seeds(), iterates={"groups": [group]})

    return made


def preconditioned(key: str) -> Made:
    """A loop of linear attention."""
    return lambda value: evidence(
        seeds(injection="linear_attention", n_embd=DIMS, n_head=1),
        preconditioner={"groups": [{"b": 8, key: number(value)}]},
    )


def conditioned(key: str, family: str = "looped") -> Made:
    """A model of ill-conditioned inputs."""

    def made(value: float) -> Evidence:
        found = {"gain_ratio": number(value), "groups": [{"family": family, "b": 8}]}
        found["groups"][0][key] = number(value)  # type: ignore[index]
        return evidence(seeds(family=family), conditioning=found)

    return made


def diverse(functions: int) -> Made:
    """Models of finitely many functions, of which those of `functions` have the value."""

    def made(value: float) -> Evidence:
        counts = (4, 32, 256)
        groups = [
            {"family": "looped", "functions": count,
             "new": {"memorises": number(value if count == functions else 0.5)}}
            for count in counts
        ]  # fmt: skip
        ratios = {str(count): number(value) for count in counts}
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
        numbers = {name: number(1.0) for name in classes}
        group: dict[str, Any] = {"family": "looped", "errors": numbers, "over_alone": numbers,
                                 "worst": number(1.0), "sums": number(1.0)}  # fmt: skip
        found: dict[str, Any] = {"groups": [group], "looped_over_standard": number(1.0)}
        (group if key in group else found)[key] = number(value)
        runs = [seeds(family=family, task="mixture") for family in ("looped", "standard")]
        return evidence(*runs, *(seeds(task=name) for name in classes), mixture=found)

    return made


def plateau(key: str) -> Made:
    """Runs of Muon and of Adam, of which Adam's, or their ratio, have the value."""

    def made(value: float) -> Evidence:
        adam = {"optimizer": "adam", key: number(value)}
        found = {
            "groups": [{"optimizer": "muon"}, adam],
            "muon_over_adam": number(value) if key == "muon_over_adam" else None,
        }
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
