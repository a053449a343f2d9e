"""Prediction i has seen x_i and the pairs before it, and nothing else: bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reloop.models import Model
from tests.models.small import FAMILIES, WAYS, Batch, draw_prompts, make_model

POINTS, LOOPS = 8, 3


def all_predictions(model: Model, prompts: Batch) -> Tensor:
    """Predictions after every loop (layer), [loops, B, n]."""
    return torch.stack([prediction for _, prediction in model.unroll(prompts, LOOPS)][1:])


@pytest.fixture(params=[*FAMILIES, "multiply", *WAYS])
def model(request: pytest.FixtureRequest) -> Model:
    """Each family, looped with the other injection, and every other way to loop."""
    if request.param in FAMILIES:
        return make_model(request.param)
    return make_model(**WAYS.get(request.param, {"injection": "multiply"}))


@pytest.mark.parametrize("j", [0, 3, POINTS - 1])
def test_an_input_matters_from_its_own_prediction_on(model: Model, j: int) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys)
    altered.xs[:, j] += 1
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, :, :j], after[:, :, :j])
    assert torch.all(before[:, :, j:] != after[:, :, j:])


@pytest.mark.parametrize("j", [0, 3, POINTS - 1])
def test_an_output_matters_after_its_own_prediction(model: Model, j: int) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs, prompts.ys.clone())
    altered.ys[:, j] += 1
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, :, : j + 1], after[:, :, : j + 1])
    assert torch.all(before[:, :, j + 1 :] != after[:, :, j + 1 :])


def test_the_trained_predictions_are_as_causal(model: Model) -> None:
    """The same through `forward`, whose window is what the loss sees."""
    window = 1 if model.spec.family == "standard" else 2
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    altered.ys[:, 4:] = 100
    altered.xs[:, 5:] = 100
    before, after = (model(batch, LOOPS, window) for batch in (prompts, altered))
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert torch.all(before[:, :, 5:] != after[:, :, 5:])


def test_gradients_are_causal(model: Model) -> None:
    """Prediction 3 has no derivative with respect to y_3 or anything later."""
    prompts = draw_prompts(points=POINTS)
    xs, ys = prompts.xs.requires_grad_(), prompts.ys.requires_grad_()
    model(Batch(xs, ys), LOOPS, grad_loops=LOOPS)[..., 3].sum().backward()
    assert xs.grad is not None
    assert ys.grad is not None
    assert torch.all(xs.grad[:, :4] != 0)
    assert torch.all(ys.grad[:, :3] != 0)
    assert torch.all(xs.grad[:, 4:] == 0)
    assert torch.all(ys.grad[:, 3:] == 0)


def test_prompts_of_a_batch_do_not_see_each_other(model: Model) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    altered.xs[1] = altered.ys[1] = 100
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, [0, 2]], after[:, [0, 2]])
    assert not torch.equal(before[:, 1], after[:, 1])
