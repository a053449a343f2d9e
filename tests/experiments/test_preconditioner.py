"""The preconditioner of linear attention: models with a known one, and the theory's errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.experiments.preconditioner import measure
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training import Run
from looplab.training.assemble import build_model, build_task

_SETTINGS = EvaluationConfig(prompts=300, resamples=50)
_CONFIG = Config(
    task=TaskConfig(
        "conditioned_linear", dims=4, points=21,
        settings={"condition": 20.0, "varied": False, "rotated": False, "whitened": True},
    ),
    model=ModelConfig(n_embd=4, n_head=1, injection="linear_attention"),
    loops=LoopsConfig(b=3, T=1, grad_loops="all"),
)  # fmt: skip


def made(attention: Tensor, u: float = 0.0, seed: int = 0, config: Config = _CONFIG) -> Run:
    """A run whose model has these parameters."""
    config = replace(config, seed=seed)
    task = build_task(config)
    model = build_model(config, task).eval()
    loop = cast(LinearAttentionLoop, model.loop)
    loop.attention.data = attention.float()
    loop.input_values.data.fill_(u)
    return Run(Path(f"run-{seed}"), config, task, model, config.training.steps)


def inverse() -> Tensor:
    covariance = cast(ConditionedLinear, build_task(_CONFIG)).covariance().double()
    return torch.linalg.inv(covariance)


def learned(*runs: Run) -> Any:
    (group,) = measure(runs, _SETTINGS)["groups"]
    return group


def test_the_inverse_covariance_has_no_spread_and_no_preconditioner_that_of_the_inputs() -> None:
    exact = learned(made(0.8 * inverse()))
    assert exact["singular_values"] == pytest.approx([0.8] * 4, rel=1e-4)
    assert exact["spread"].mean == pytest.approx(1, rel=1e-4)
    assert exact["asymmetry"].mean == pytest.approx(0, abs=1e-6)
    assert exact["input_values"].mean == 0
    none = learned(made(0.3 * torch.eye(4)))
    assert none["spread"].mean == pytest.approx(20, rel=1e-4)
    assert none["spread_of_inputs"] == pytest.approx(20, rel=1e-4)


def test_at_the_theorys_rate_the_errors_are_the_theorys() -> None:
    rate = learned(made(inverse()))["rate"].mean  # of a model of rate 1
    best = learned(made(inverse() / rate))
    assert best["rate"].mean == pytest.approx(1)
    assert best["over_theory"].mean == pytest.approx(1, rel=1e-3)
    assert best["over_descent"].high < 0.5


def test_a_model_without_a_preconditioner_is_plain_gradient_descent_at_best() -> None:
    """Over rates; its best one was chosen on other prompts, and can be a little better here."""
    rates = np.linspace(0.2, 0.8, 13)
    ratios = [learned(made(rate * torch.eye(4)))["over_descent"].mean for rate in rates]
    assert min(ratios) == pytest.approx(1, abs=0.02)


def test_what_the_theory_has_none_of_is_shown() -> None:
    turned = inverse() + torch.tensor([[0, 1.0], [-1, 0]]).repeat(2, 2).triu(1) / 2
    found = learned(made(turned, u=0.5))
    assert found["asymmetry"].mean > 0.05
    expected = 0.5 * 2 / turned.norm().item()
    assert found["input_values"].mean == pytest.approx(expected, rel=1e-5)


def test_seeds_are_averaged() -> None:
    found = learned(made(inverse()), made(0.5 * inverse(), seed=1))
    assert found["singular_values"] == pytest.approx([0.75] * 4, rel=1e-4)
    assert found["over_theory"].seeds == 2


def test_other_models_and_tasks_are_refused(linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="must be linear_attention"):
        measure([linear_run], _SETTINGS)
    task = replace(_CONFIG.task, settings={**_CONFIG.task.settings, "rotated": True})
    with pytest.raises(ConfigError, match="varied=false and rotated=false"):
        measure([made(torch.eye(4), config=replace(_CONFIG, task=task))], _SETTINGS)
