"""Prompts in their own units: exactly equivariant models, and what the whitening is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.covariance import oas

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.errors import ErrorSettings, HaltingRule
from looplab.evaluation.evaluate_run import evaluated, resolved
from looplab.evaluation.evaluator import Evaluator
from looplab.evaluation.kept import Arrays
from looplab.evaluation.normalise import (
    check_normalise,
    in_own_units,
    normalised_errors,
    whitening,
)
from looplab.evaluation.results import in_own_unit
from looplab.show.report import report
from looplab.tasks import SHIFTS, Prompts, make_task
from looplab.training import Run
from tests.evaluation.conftest import restless

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.parametrize("kind", ["scale", "whiten"])
def test_the_scale_of_x_and_of_w_changes_nothing(tiny_run: Run, kind: str) -> None:
    run = restless(tiny_run)
    shifted = SHIFTS["random_orthants"].sample(run.task, torch.Generator().manual_seed(1), 16, 7)
    settings = ErrorSettings((2,), 2, HaltingRule("state", 0.3, 2))

    def errors(of_x: float, of_w: float) -> Arrays:
        given, asked = (
            Prompts(each.xs * of_x, each.ys * of_x * of_w)
            for each in (shifted.prompts, shifted.queries)
        )
        return normalised_errors(run.model, run.task, given, settings, asked, kind=kind)

    plain, scaled = errors(1.0, 1.0), errors(8.0, 0.5)
    assert plain.keys() == scaled.keys()
    for name, values in plain.items():
        is_error = name not in ("state_change", "prediction_change", "loops_used")
        expected = values * 16 if is_error else values  # 8 · 1/2, squared
        rows = slice(1, None) if values.shape[1] == 7 else slice(None)  # but without examples
        np.testing.assert_array_equal(scaled[name][:, rows], expected[:, rows])


def test_without_examples_a_prompt_is_as_it_is(tiny_run: Run) -> None:
    settings = EvaluationConfig(prompts=16, resamples=20, baselines=())
    _, plain = evaluated(tiny_run, settings)
    result, whitened = evaluated(tiny_run, replace(settings, normalise="whiten"))
    np.testing.assert_allclose(whitened["model"][:, 0], plain["model"][:, 0], rtol=1e-5)
    assert not np.allclose(whitened["model"], plain["model"], rtol=1e-2)
    assert "prompts whitened" in report(result)


@pytest.mark.parametrize(("count", "dims"), [(3, 6), (6, 6), (40, 6), (5, 1)])
def test_the_whitening_is_the_inverse_root_of_scikit_learns_shrunk_moment(
    count: int, dims: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    xs = torch.randn(4, count, dims, generator=generator, dtype=torch.float64)
    xs *= torch.linspace(0.2, 3, dims, dtype=torch.float64)
    xs /= xs.square().mean((1, 2), keepdim=True).sqrt()
    for row, root in zip(xs, whitening(xs), strict=True):
        shrunk = oas(row.numpy(), assume_centered=True)[0] if dims > 1 else np.eye(1)
        found = root.numpy() @ shrunk @ root.numpy()
        np.testing.assert_allclose(found, np.eye(dims), atol=1e-9)


def test_zeros_have_the_unit_one() -> None:
    prompts = Prompts(torch.zeros(2, 3, 4), torch.zeros(2, 3))
    own, unit = in_own_units("whiten", prompts, prompts, 2, divisor=4.0)
    assert own.xs.equal(prompts.xs)
    assert own.ys.equal(prompts.ys)
    assert unit.tolist() == [1.0, 1.0]


def test_classes_have_no_scale() -> None:
    task = make_task("halfspaces", dims=3)
    check_normalise("none", task)
    with pytest.raises(ConfigError, match="must be none for task=halfspaces: its y are classes"):
        check_normalise("scale", task)


def test_errors_over_the_variance_of_shifted_outputs(tiny_run: Run) -> None:
    settings = EvaluationConfig(prompts=16, resamples=20, baselines=(), shifts=("scaled_w_3",))
    result, arrays = evaluated(tiny_run, settings)
    ys = Evaluator(tiny_run, resolved(tiny_run, settings)).shifted("scaled_w_3").queries.ys
    variance = ys.double().square().mean().item()
    squared_errors = arrays["scaled_w_3/model_at_b"].mean(0) * tiny_run.task.divisor
    own = in_own_unit(result.shifts["scaled_w_3"])
    means = numbers(own.bands["model_at_b"]["mean"])
    np.testing.assert_allclose(means, squared_errors / variance, rtol=1e-5)
    assert own.zero == 1.0
