"""Errors by loop and condition number, and which iterate each loop is nearest to: models that are
solvers have known answers."""

from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig, TaskConfig
from looplab.evaluation.baselines.iterates import (
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from looplab.experiments import conditioning, iterates
from looplab.tasks import Prompts
from looplab.training import Run
from tests.experiments.checks import check_panels, panels_of, predicting

_SETTINGS = EvaluationConfig(prompts=60, resamples=30)
_TASK = TaskConfig("conditioned_linear", 3, 31, settings={"condition": 10.0, "whitened": True})


def _predict(kind: str, prompts: Prompts, loop: int) -> Tensor:
    """Gradient descent, Newton's method, or descent that forgets what it had."""
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    equations = normal_equations(xs, ys)
    steps = newton(equations) if kind == "newton" else gradient_descent(equations, 0.01)
    (values,) = predictions(xs, steps, [loop])
    return torch.tensor(values * (0 if kind == "forgets" and loop == 3 else 1))


def solved(
    kind: str, b: int = 4, family: Literal["looped", "standard"] = "looped", seed: int = 0
) -> Run:
    return predicting(partial(_predict, kind), _TASK, family, b, seed)


def by_condition(result: dict[str, Any]) -> list[Any]:
    """The errors at b of each group, by condition number."""
    panel, *_ = panels_of(conditioning, result)
    assert panel.name == "conditioning-by-condition"
    assert panel.x == [1, 3, 10, 30, 100]
    return [curve.mean for curve in panel.curves]


def test_descent_never_rises_and_forgetting_is_seen() -> None:
    runs = [solved("descent"), solved("forgets", family="standard")]
    result = conditioning.measure(runs, _SETTINGS)
    descent, forgets = (group["rise"].mean for group in result["groups"])
    assert descent == 1
    # At step 3 the error is that of predicting zero, about 1; before, that of two steps.
    assert forgets > 1.2
    assert "gain_ratio" not in result  # one number of loops
    panels = panels_of(conditioning, result)
    check_panels(panels)
    assert [panel.x_label for panel in panels] == ["condition number", "loop", "layer"]


def test_the_error_grows_with_the_condition_number_and_loops_help_more() -> None:
    runs = [solved("descent", 4), solved("descent", 16), solved("descent", 16, seed=1)]
    result = conditioning.measure(runs, _SETTINGS)
    few, many = by_condition(result)
    for errors in (few, many):
        assert errors == sorted(errors)
    ratio = (few[2] / many[2]) / (few[0] / many[0])
    assert result["gain_ratio"].mean == pytest.approx(ratio)


_FEW = EvaluationConfig(prompts=24, resamples=40, batch_size=10)


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
    result = iterates.measure([run], _FEW)
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
