"""Which iterate each loop is nearest to: models that are solvers themselves have a known answer."""

from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.evaluation.baselines.iterates import newton, normal_equations, predictions
from looplab.experiments import iterates
from looplab.tasks import Prompts
from tests.experiments.checks import panels_of, predicting

_SETTINGS = EvaluationConfig(prompts=24, resamples=40, batch_size=10)


def two_steps(prompts: Prompts, loop: int) -> Tensor:
    """Loop t gives Newton's iterate 2 t."""
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    (values,) = predictions(xs, newton(normal_equations(xs, ys)), [2 * loop])
    return torch.tensor(values)


def by_loop(result: dict[str, Any], kind: str, method: str) -> Any:
    """The curve of a method in the picture of a kind."""
    (panel,) = (panel for panel in panels_of(iterates, result) if panel.name.startswith(kind))
    (curve,) = (curve for curve in panel.curves if curve.name == method)
    return curve.mean


def test_a_model_that_makes_two_newton_steps_a_loop_is_found_out() -> None:
    run = predicting(two_steps, TaskConfig("linear", dims=4, points=9), b=4)
    result = iterates.measure([run], _SETTINGS)
    assert by_loop(result, "nearest", "newton")[:4] == [2, 4, 6, 8]
    assert by_loop(result, "cosine", "newton")[:4] == pytest.approx([1, 1, 1, 1])
    (group,) = result["groups"]
    found, descent = group["methods"]["newton"], group["methods"]["gradient_descent"]
    assert found["per_loop"].mean == pytest.approx(2)
    assert found["acceleration"].mean == pytest.approx(1)
    # Its iterates are none of gradient descent's, of which it takes ever more to come near.
    assert descent["acceleration"].mean > 2
    assert found["nearer"].low > 0
    assert descent["nearer"].mean == 0
