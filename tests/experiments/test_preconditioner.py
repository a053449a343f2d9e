"""The preconditioner of linear attention: models with a known one, and the theory's errors."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation.baselines.iterates import best_rate, normal_equations
from looplab.experiments import preconditioner
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training import Run
from looplab.training.assemble import build_model, build_task
from looplab.training.validation import evaluation_prompts
from tests.experiments.checks import panels_of

_SETTINGS = EvaluationConfig(prompts=300, resamples=50)
_CONFIG = Config(
    task=TaskConfig(
        "conditioned_linear", dims=4, points=21,
        settings={"condition": 20.0, "varied": False, "rotated": False, "whitened": True},
    ),
    model=ModelConfig(n_embd=4, n_head=1, injection="linear_attention"),
    loops=LoopsConfig(b=3, T=1, grad_loops="all"),
)  # fmt: skip


def made(attention: Tensor, seed: int = 0) -> Run:
    """A run whose model has these parameters, and adds nothing to the inputs."""
    config = replace(_CONFIG, seed=seed)
    task = build_task(config)
    model = build_model(config, task).eval()
    loop = cast(LinearAttentionLoop, model.loop)
    loop.attention.data = attention.float()
    loop.input_values.data.zero_()
    return Run(Path(f"run-{seed}"), config, task, model, config.training.steps)


def inverse() -> Tensor:
    covariance = cast(ConditionedLinear, build_task(_CONFIG)).covariance().double()
    return torch.linalg.inv(covariance)


def learned(*runs: Run) -> Any:
    result = preconditioner.measure(runs, _SETTINGS)
    (panel,) = panels_of(preconditioner, result)
    assert [curve.name for curve in panel.curves] == [
        *("model", "gradient_descent", "preconditioned", "newton")
    ]
    (group,) = result["groups"]
    return group


def test_the_inverse_covariance_has_no_spread_and_no_preconditioner_that_of_the_inputs() -> None:
    assert learned(made(0.8 * inverse()))["spread"].mean == pytest.approx(1, rel=1e-4)
    assert learned(made(0.3 * torch.eye(4)))["spread"].mean == pytest.approx(20, rel=1e-4)
    both = learned(made(inverse()), made(0.5 * inverse(), seed=1))
    assert both["over_theory"].seeds == both["spread"].seeds == 2


def test_at_the_theorys_rate_the_errors_are_the_theorys() -> None:
    """The rate is the best for three steps of descent on whitened inputs, of other prompts."""
    task = build_task(_CONFIG)
    prompts = evaluation_prompts(task, 300, 21, _SETTINGS.seed + 1)
    xs = prompts.xs.double() @ torch.diag(inverse().diagonal().sqrt())
    pairs = xs.numpy(), prompts.ys.double().numpy()
    rate = best_rate(normal_equations(*pairs), *pairs, 3)
    found = learned(made(20 * rate * inverse()))  # the loop takes the mean over 20 pairs
    assert found["over_theory"].mean == pytest.approx(1, rel=1e-3)
    assert found["over_descent"].high < 0.5
