"""Errors by loop and condition number: models that are solvers have known answers."""

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
from looplab.evaluation.baselines.iterates import (
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from looplab.experiments.conditioning import measure
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task

_SETTINGS = EvaluationConfig(prompts=60, resamples=30)


class Solver:
    """In a model's place: gradient descent, Newton's method, or one that forgets what it had."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        equations = normal_equations(xs, ys)
        steps = newton(equations) if self.kind == "newton" else gradient_descent(equations, 0.01)
        for t, values in enumerate(predictions(xs, steps, range(loops + 1))):
            yield None, torch.tensor(values * (0 if self.kind == "forgets" and t == 3 else 1))


def solved(
    kind: str,
    b: int = 4,
    family: Literal["looped", "standard"] = "looped",
    condition: float = 10.0,
    seed: int = 0,
) -> Run:
    config = Config(
        task=TaskConfig(
            "conditioned_linear", 3, 31, settings={"condition": condition, "whitened": True}
        ),
        model=ModelConfig(
            family=family, n_layer=1 if family == "looped" else b,
            injection="add" if family == "looped" else "none",
        ),
        loops=LoopsConfig(b=b, T=2),
        seed=seed,
    )  # fmt: skip
    steps = config.training.steps
    return Run(
        Path(f"{kind}-{b}-{seed}"), config, build_task(config), cast(Any, Solver(kind)), steps
    )


def number(result: dict[str, Any], group: int, key: str) -> float:
    return float(result["groups"][group][key].mean)


def test_descent_never_rises_and_forgetting_is_seen() -> None:
    result = measure([solved("descent"), solved("forgets", family="standard")], _SETTINGS)
    assert number(result, 0, "rise") == 1
    # At step 3 the error is that of predicting zero, about 1; before, that of two steps.
    assert number(result, 1, "rise") > 1.2


def test_the_error_grows_with_the_condition_number_and_loops_help_more() -> None:
    runs = [solved("descent", 4), solved("descent", 16), solved("descent", 16, seed=1)]
    result = measure(runs, _SETTINGS)
    for group in result["groups"]:
        errors = [value.mean for value in group["errors"].values()]
        assert list(group["errors"]) == ["1", "3", "10", "30", "100"]
        assert errors == sorted(errors)
    assert number(result, 0, "beyond") > 1
    few, many = result["groups"]
    expected = few["errors"]["10"].mean / many["errors"]["10"].mean
    assert result["gain"]["10"].mean == pytest.approx(expected)
    ratio = result["gain"]["10"].mean / result["gain"]["1"].mean
    assert result["gain_ratio"].mean == pytest.approx(ratio)


def test_errors_are_those_on_prompts_of_exactly_this_condition_number() -> None:
    result = measure([solved("newton", 5)], _SETTINGS)
    settings = {"condition": 100.0, "varied": False, "whitened": True}
    config = solved("newton").config
    task = build_task(replace(config, task=replace(config.task, settings=settings)))
    prompts = task.sample(torch.Generator().manual_seed(2024), 60, 31)
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    last = predictions(xs, newton(normal_equations(xs, ys)), [5])[0, :, -1]
    expected = float(np.square(last - ys[:, -1]).mean()) / 3
    assert result["groups"][0]["errors"]["100"].mean == pytest.approx(expected)
    assert result["gain_ratio"] is None  # one number of loops


def test_panels_fit_their_x() -> None:
    result = measure([solved("newton", 4), solved("descent", 6, "standard")], _SETTINGS)
    assert [panel.x_label for panel in result["panels"]] == [
        "condition number", "loop", "layer",
    ]  # fmt: skip
    for panel in result["panels"]:
        assert all(len(curve.mean) == len(panel.x) for curve in panel.curves)


def test_other_tasks_and_mixed_condition_numbers_are_refused(linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="must be conditioned_linear with a condition above 1"):
        measure([linear_run], _SETTINGS)
    with pytest.raises(ConfigError, match="must be the same in all runs"):
        measure([solved("newton"), solved("newton", condition=20.0)], _SETTINGS)
