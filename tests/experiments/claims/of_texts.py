"""Language models with chosen bits per byte, and results of the measures of texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from looplab.experiments.claims import Estimate, Evidence, Measured
from looplab.experiments.definition import load, members_of

from .synthetic import Made, evidence, seeds


def number(value: float) -> dict[str, Any]:
    return Estimate(value, value, value, 2).plain()


def language(level: float, b: int, **model: Any) -> list[Measured]:
    """Runs whose held-out blocks have about so many bits per byte at every loop."""
    members = []
    for member in seeds(task="language", b=b, T=1, **model):
        noise = np.random.default_rng([member.config.seed, b])
        hard = np.random.default_rng(1).normal(size=(50, 1))
        bits = level * np.exp(0.05 * hard + 0.001 * noise.normal(size=(50, 2 * b)))
        members.append(replace(member, arrays={"model_at_b": bits, "held_out": bits}))
    return members


def loops_of(variant: str, other: str = "") -> Made:
    """A variant of 2 and 8 loops, whose ratio is the value; with another variant, that over it."""

    def made(ratio: float) -> Any:
        least = {"block": "flt", "injection": "none"}
        found = [
            *language(2.0, 2, connectivity=variant, **least),
            *language(2.0 * ratio, 8, connectivity=variant, **least),
        ]
        if other:
            found += language(2.0, 2, connectivity=other, **least)
            found += language(2.0, 8, connectivity=other, **least)
        norms = {
            str(b): {"first_residual": [end * (1 + 0.01 * seed) for seed in range(3)]}
            for b, end in ((2, 1.0), (8, ratio))
        }
        return evidence(found, fully_looped={"loops": [2, 8], "variants": {variant: norms}})

    return made


def rates(kind: str, key: str) -> Made:
    """A movement of the best rate, or a gain."""

    def made(value: float) -> Any:
        of_seeds = {"verdict": "gain", "by_seed": [value, 0.99 * value, 1.01 * value]}
        found = {"8": of_seeds} if kind == "gain" else of_seeds
        result = {"loops": [1, 8], kind: {key: found}, "best": {}}
        return evidence(language(2.0, 8), residual_scaling=result)

    return made


def useful(which: Mapping[int, Any]) -> Made:
    """Runs with the loss of so many loops of the 12 of training, each with its bits per byte after
    so many loops of 48 by the value; else they have 2."""

    def made(value: float) -> Any:
        runs = []
        for member in members_of(load("language_test_loops"), "small"):
            T, seed = member.config.loops.T, member.config.seed
            bits = 2 + 0.002 * np.random.default_rng([seed, T]).normal(size=(30, 48))
            if T in which:
                bits *= which[T](np.arange(1, 49), value)
            runs.append(Measured(member.label, member.config, 1000, {"held_out": bits}))
        return Evidence(runs)

    return made


def iso_flop(kind: str = "") -> Made:
    """φ of the law; with a kind its φ less that of all gradients."""

    def made(value: float) -> Any:
        plain = value if not kind else 0.5
        phi = {"gradients of all loops": _phi(plain)}
        if kind:
            phi[kind] = _phi(0.5 + value)
        return evidence(language(2.0, 8), language_iso_depth={"phi": phi})

    return made


def _phi(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "not_determined": ""}


def shared(ratio: float) -> Any:
    """Budgets at which each r has so many times the loss of the next smaller one."""
    minima = {
        str(budget): {
            str(r): 1.5 * (ratio + 0.001 * (budget - 12)) ** i for i, r in enumerate((1, 2, 4, 8))
        }
        for budget in (12, 13)
    }
    return evidence(language(2.0, 8), language_iso_depth={"minima": minima})


def inference(ratio: float) -> Any:
    """A model whose bits per byte are so many times as many where its loops share keys and values;
    and one of one loop."""
    groups = [
        {"loops": loops, "shared_over_own": number(value)}
        for loops, value in ((1, 1.0), (8, ratio))
    ]
    return evidence(language(2.0, 8), inference={"groups": groups})


def depth(label: str, loop: int | None = None) -> Made:
    """The runs of language_depth, with bits per byte of about 2; those of which the label begins so
    have `value` times as many, after one number of loops or after each."""

    def made(value: float) -> Any:
        found = []
        for member in members_of(load("language_depth"), "small"):
            rng = np.random.default_rng([member.config.seed, len(member.label)])
            bits = 2 + 0.002 * rng.normal(size=(30, 16)) + 0.1 * np.linspace(-1, 1, 30)[:, None]
            if member.label.startswith(label):
                bits[:, slice(None) if loop is None else loop - 1] *= value
            steps = member.config.training.steps
            found.append(Measured(member.label, member.config, steps, {"held_out": bits}))
        return Evidence(found)

    return made
