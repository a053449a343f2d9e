"""Which iterate each loop is nearest to: models that are solvers themselves have a known answer."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.evaluation.baselines.iterates import (
    conjugate_gradients,
    newton,
    normal_equations,
    predictions,
)
from looplab.experiments.iterates import measure
from looplab.tasks import Prompts
from looplab.training import Run
from tests.experiments.checks import predicting

_SETTINGS = EvaluationConfig(prompts=24, resamples=40, batch_size=10)


def solved(method: str, noise: float = 0.0) -> Run:
    """Loop t gives the iterate 2 t of a method, with a little noise."""

    def predict(prompts: Prompts, loop: int) -> Tensor:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        weights = {"conjugate_gradients": conjugate_gradients, "newton": newton}[method]
        (values,) = predictions(xs, weights(normal_equations(xs, ys)), [2 * loop])
        random = np.random.default_rng(len(prompts)).standard_normal(ys.shape)
        return torch.tensor(values + noise * random)

    return predicting(predict, TaskConfig("linear", dims=4, points=9), b=4)


def methods(result: dict[str, Any]) -> Any:
    (group,) = result["groups"]
    return group["methods"]


def by_loop(result: dict[str, Any], kind: str, method: str) -> Any:
    """The curve of a method in the picture of a kind."""
    (panel,) = (panel for panel in result["panels"] if panel.name.startswith(kind))
    (curve,) = (curve for curve in panel.curves if curve.name == method)
    return curve.mean


def test_a_model_that_makes_two_newton_steps_a_loop_is_found_out() -> None:
    result = measure([solved("newton")], _SETTINGS)
    assert by_loop(result, "nearest", "newton")[:4] == [2, 4, 6, 8]
    assert by_loop(result, "cosine", "newton")[:4] == pytest.approx([1, 1, 1, 1])
    found = methods(result)["newton"]
    assert found["per_loop"].mean == pytest.approx(2)
    assert found["acceleration"].mean == pytest.approx(1)
    # Its iterates are none of gradient descent's, of which it takes ever more to come near.
    descent = methods(result)["gradient_descent"]
    assert descent["acceleration"].mean > 2
    assert found["nearer"].low > 0
    assert descent["nearer"].mean == 0


def test_one_that_makes_steps_of_conjugate_gradients_is_nearest_to_these() -> None:
    result = measure([solved("conjugate_gradients", noise=0.01)], _SETTINGS)
    assert by_loop(result, "nearest", "conjugate_gradients")[0] == 2
    ours, newtons = (
        by_loop(result, "cosine", name)[0] for name in ("conjugate_gradients", "newton")
    )
    assert ours > newtons
