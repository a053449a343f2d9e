"""Runs whose errors are chosen: what claims are judged from in tests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments.evidence import Evidence

PROMPTS, DIMS = 200, 4
# Of a quantity: the evidence in which it has about this value.
Made = Callable[[float], Evidence]


def run(
    level: float = 0.1,
    family: Literal["looped", "tied", "standard"] = "looped",
    seed: int = 0,
    *,
    task: str = "linear",
    label: str = "",
    b: int = 8,
    T: int = 4,
    sampling: Literal["none", "uniform"] = "none",
    rate: float = 1e-3,
    distinct_prompts: int = 0,
    steps: int = 1000,
    step: int | None = None,
    **model: Any,
) -> EvaluatedRun:
    """A finished run with mean errors of about `level` at every number of examples and loop, and
    those of least squares; prompts are hard or easy for all runs alike."""
    points = 2 * DIMS + 1
    layers = model.pop("n_layer", 12 if family == "standard" else 1)
    config = Config(
        task=TaskConfig(task, DIMS, points, distinct_prompts, settings={}),
        model=ModelConfig(family, layers, **model),
        loops=LoopsConfig(b, T, sampling=sampling),
        curriculum=CurriculumConfig(
            loops=GrowthConfig(inc=2, intervals=(50,)) if family == "looped" else GrowthConfig()
        ),
        training=TrainingConfig(steps=steps, learning_rate=rate),
        seed=seed,
        scale="small",
    )  # fmt: skip
    noise = np.random.default_rng([seed, len(family), b, T])
    hard = np.random.default_rng(0).exponential(size=PROMPTS)  # the same prompts for all runs

    def errors(at: float, columns: int = points) -> Floats:
        return at * hard[:, None] * np.exp(0.05 * noise.normal(size=(PROMPTS, columns)))

    arrays = {"model_at_b": errors(level), "by_loop": errors(level, 10 * b)}
    arrays["least_squares"] = 0.5 * np.repeat(hard[:, None], points, axis=1)
    return EvaluatedRun(label or family, config, steps if step is None else step, arrays)


def seeds(count: int = 3, **settings: Any) -> list[EvaluatedRun]:
    """The same run for several seeds."""
    return [run(seed=seed, **settings) for seed in range(count)]


def language(level: float, b: int, **model: Any) -> list[EvaluatedRun]:
    """Runs whose held-out blocks have about so many bits per byte at every loop."""
    members = []
    for member in seeds(task="language", b=b, T=1, **model):
        noise = np.random.default_rng([member.config.seed, b])
        hard = np.random.default_rng(1).normal(size=(50, 1))
        bits = level * np.exp(0.05 * hard + 0.001 * noise.normal(size=(50, 2 * b)))
        members.append(replace(member, arrays={"model_at_b": bits, "held_out": bits}))
    return members


def evidence(*runs: list[EvaluatedRun], **results: Any) -> Evidence:
    """The runs of several lists, and results of other commands."""
    return Evidence([member for each in runs for member in each], results)
