"""Whole models against the formula: positions, injection, norms and where predictions are read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.models import Model
from tests.models.formula import Shape, predict, streams
from tests.models.small import as_double, draw_prompts, make_model

CASES: list[dict[str, Any]] = [
    {"family": "looped", "injection": "add"},
    {"family": "looped", "injection": "multiply"},
    {"family": "looped", "injection": "add", "n_layer": 3},
    {"family": "looped", "injection": "multiply", "n_layer": 2},
    {"family": "tied"},
    {"family": "tied", "n_layer": 2},
    {"family": "standard"},
]
LOOPS = 3


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case.values())))
def model(request: pytest.FixtureRequest) -> Model:
    """Each kind of model in float64."""
    return make_model(**request.param).double()


def expected_streams(model: Model, loops: int = LOOPS) -> list[Tensor]:
    """The formula's streams for the prompts of `draw_prompts`."""
    spec = model.spec
    injection = spec.injection if spec.family == "looped" else "none"
    shape = Shape(spec.family, injection, spec.n_layer, spec.n_head)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return streams(as_double(draw_prompts()), weights, shape, loops)


def test_streams_are_those_of_the_formula(model: Model) -> None:
    """In float64 after every loop. A standard model's stream is normed by the read-out alone."""
    steps = list(model.unroll(as_double(draw_prompts()), LOOPS))[1:]
    for (state, _), expected in zip(steps, expected_streams(model), strict=True):
        assert state.stream.dtype == torch.float64
        read = model.loop.read(state.stream)
        torch.testing.assert_close(read, expected, rtol=1e-10, atol=1e-10)


def test_predictions_are_those_of_the_formula(model: Model) -> None:
    """To the rounding of float32, which predictions have whatever the weights are."""
    window = 1 if model.spec.family == "standard" else 2
    predictions = model(as_double(draw_prompts()), LOOPS, window)
    weights = dict(model.named_parameters())
    kept = expected_streams(model)[-window:]
    expected = torch.stack([predict(stream, weights) for stream in kept])
    assert predictions.shape == (window, 3, 6)
    torch.testing.assert_close(predictions.double(), expected, rtol=2e-7, atol=1e-6)


def test_float32_agrees_with_float64(model: Model) -> None:
    exact = model(as_double(draw_prompts()), LOOPS)
    rounded = model.float()(draw_prompts(), LOOPS)
    torch.testing.assert_close(rounded, exact.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["looped", "tied"])
def test_a_loop_norms_its_output_and_tells_the_raw_one(family: str) -> None:
    """The state of a shared loop: what the next loop reads, and the same before the norm."""
    model = make_model(family).double()
    for state, _ in list(model.unroll(as_double(draw_prompts()), LOOPS))[1:]:
        torch.testing.assert_close(model.loop.norm(state.raw), state.stream)
        assert not torch.allclose(state.raw, state.stream)


def test_multiplying_by_the_read_in_differs_from_adding_it() -> None:
    add, multiply = (make_model(injection=injection) for injection in ("add", "multiply"))
    for one, other in zip(add.parameters(), multiply.parameters(), strict=True):
        assert torch.equal(one, other)
    prompts = draw_prompts()
    assert not torch.allclose(add(prompts, 2), multiply(prompts, 2))


def test_more_points_leave_the_first_predictions_as_they_were(model: Model) -> None:
    prompts = as_double(draw_prompts())
    short = type(prompts)(prompts.xs[:, :4], prompts.ys[:, :4])
    torch.testing.assert_close(model(short, LOOPS), model(prompts, LOOPS)[:, :, :4])
