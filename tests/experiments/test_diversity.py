"""Memorised or learned: models that are dMMSE or ridge regression themselves have known answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation.baselines.bayes import discrete_posterior
from looplab.evaluation.baselines.linear import ridge
from looplab.experiments.diversity import measure
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task

_SETTINGS = EvaluationConfig(prompts=150, resamples=40)


class Solver:
    """In a model's place: one of the two predictors, with a bias."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, kind: str, bias: float) -> None:
        self.kind, self.bias = kind, bias
        self.task: Any = None

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        if self.kind == "ridge":
            values = ridge(xs, ys, xs, 0.25)
        else:
            weights = self.task.functions().double().numpy()
            values = discrete_posterior(xs, ys, xs, weights, 0.5)
        for _ in range(loops + 1):
            yield None, torch.tensor(values + self.bias)


def solved(
    kind: str,
    functions: int,
    family: Literal["looped", "standard"] = "looped",
    bias: float = 0.0,
    seed: int = 0,
) -> Run:
    config = Config(
        task=TaskConfig(
            "noisy_linear", 3, 8, settings={"noise_std": 0.5}, distinct_functions=functions
        ),
        model=ModelConfig(family=family, injection="add" if family == "looped" else "none"),
        loops=LoopsConfig(b=2, T=2),
        seed=seed,
    )
    task, model = build_task(config), Solver(kind, bias)
    model.task = task
    path = Path(f"{family}-{functions}-{seed}")
    return Run(path, config, task, cast(Any, model), config.training.steps)


def value(result: dict[str, Any], group: int, part: str, key: str) -> float:
    return float(result["groups"][group][part][key].mean)


def test_dmmse_has_memorised_and_ridge_regression_has_not() -> None:
    result = measure([solved("dmmse", 4), solved("ridge", 64)], _SETTINGS)
    assert [group["functions"] for group in result["groups"]] == [4, 64]
    assert value(result, 0, "new", "memorises") == pytest.approx(1)
    assert value(result, 1, "new", "memorises") == pytest.approx(0)
    assert value(result, 0, "new", "to_dmmse") == pytest.approx(0, abs=1e-12)
    # Each is the better one where it is optimal.
    for group in (0, 1):
        better = value(result, group, "training", "error_dmmse")
        assert better < value(result, group, "training", "error_ridge")
        worse = value(result, group, "new", "error_dmmse")
        assert worse > value(result, group, "new", "error_ridge")


def test_the_models_error_is_that_of_its_predictions() -> None:
    result = measure([solved("ridge", 8)], _SETTINGS)
    assert value(result, 0, "new", "error") == value(result, 0, "new", "error_ridge")
    biased = measure([solved("ridge", 8, bias=0.3)], _SETTINGS)
    assert value(biased, 0, "new", "to_ridge") == pytest.approx(0.09 / 3)


def test_looped_over_standard_is_paired_and_by_number_of_functions() -> None:
    runs = [
        solved("ridge", 8),
        solved("ridge", 8, seed=1),
        solved("ridge", 8, "standard"),
        solved("ridge", 32),
        solved("dmmse", 4, "standard"),
        solved("ridge", 4),
    ]
    result = measure(runs, _SETTINGS)
    assert set(result["looped_over_standard"]) == {"8", "4"}
    same = result["looped_over_standard"]["8"]
    assert [same.mean, same.low, same.high] == pytest.approx([1, 1, 1], rel=1e-12)
    assert same.seeds == 1  # the fewest of both
    assert same.note == "some models have one seed, of which it shows no spread"
    assert result["looped_over_standard"]["4"].high < 1
    for panel in result["panels"]:
        assert panel.x == [4, 8, 32]
        assert all(len(curve.mean) == 3 for curve in panel.curves)
    (memorises, _) = result["panels"]
    (standard,) = (c for c in memorises.curves if c.name == "standard-new-functions")
    assert np.isfinite(standard.mean[0])
    assert standard.mean[2] is None  # no standard model of 32 functions


def test_other_tasks_are_refused(linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="must be noisy_linear with renormalize=false"):
        measure([linear_run], _SETTINGS)
    endless = solved("ridge", 4)
    config = replace(endless.config, task=replace(endless.config.task, distinct_functions=0))
    with pytest.raises(ConfigError, match="got noisy_linear with 0"):
        measure([replace(endless, config=config, task=build_task(config))], _SETTINGS)
