"""Unrolling shows the same predictions as the forward pass, loop by loop or layer by layer."""

from __future__ import annotations

import pytest
import torch

from reloop.models import Model
from tests.models.small import FAMILIES, draw_prompts, make_model

LOOPS = 5


def check_unroll(model: Model, loops: int) -> None:
    """Every prediction is that of a forward pass with as many loops."""
    prompts = draw_prompts()
    steps = list(model.unroll(prompts, loops))
    assert len(steps) == loops + 1
    for t, (_, prediction) in enumerate(steps[1:], start=1):
        assert prediction.shape == (3, 6)
        torch.testing.assert_close(prediction, model(prompts, loops=t, window=1)[0])


@pytest.mark.parametrize("injection", ["add", "multiply"])
def test_looped_predictions_are_those_of_the_forward_pass(injection: str) -> None:
    model = make_model(injection=injection)
    check_unroll(model, LOOPS)
    window = model(draw_prompts(), LOOPS, window=LOOPS)
    unrolled = torch.stack([p for _, p in model.unroll(draw_prompts(), LOOPS)][1:])
    torch.testing.assert_close(unrolled, window)


def test_tied_predictions_are_those_of_the_forward_pass() -> None:
    check_unroll(make_model("tied"), LOOPS)


def test_a_standard_model_goes_layer_by_layer() -> None:
    model = make_model("standard", n_layer=4)
    check_unroll(model, 4)


@pytest.mark.parametrize("injection", ["add", "multiply", "none"])
def test_index_zero_is_the_read_in(injection: str) -> None:
    """Whatever the loop starts from, so that all families begin at the same point."""
    model = make_model("tied") if injection == "none" else make_model(injection=injection)
    state, prediction = next(model.unroll(draw_prompts(), 1))
    prompts = draw_prompts()
    tokens = torch.zeros(3, 12, 3)
    tokens[:, 0::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    torch.testing.assert_close(state.stream, model.read_in(tokens))
    torch.testing.assert_close(state.raw, model.read_in(tokens))
    expected = model.read_out(model.read_in(prompts.xs)).squeeze(-1)
    torch.testing.assert_close(prediction, expected)


def test_index_zero_of_a_standard_model_is_read_through_its_norm() -> None:
    model, prompts = make_model("standard"), draw_prompts()
    _, prediction = next(model.unroll(prompts, 1))
    expected = model.read_out(model.loop.norm(model.read_in(prompts.xs))).squeeze(-1)
    torch.testing.assert_close(prediction, expected)


@pytest.mark.parametrize("loops", [4, 40])
def test_a_standard_model_cannot_make_more_loops_than_layers(loops: int) -> None:
    model = make_model("standard", n_layer=3)
    with pytest.raises(ValueError, match=rf"3 layers .* cannot make {loops}"):
        model(draw_prompts(), loops)
    with pytest.raises(ValueError, match=rf"3 layers .* cannot make {loops}"):
        next(model.unroll(draw_prompts(), loops))


@pytest.mark.parametrize("family", ["looped", "tied"])
def test_a_shared_loop_makes_any_number(family: str) -> None:
    predictions = make_model(family)(draw_prompts(), 200)
    assert torch.isfinite(predictions).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_later_loop_does_not_write_into_an_earlier_state(family: str) -> None:
    model = make_model(family)
    copies, states = [], []
    for state, _ in model.unroll(draw_prompts(), 3):
        copies.append((state.stream.clone(), state.raw.clone()))
        states.append(state)
    for (stream, raw), state in zip(copies, states, strict=True):
        assert torch.equal(stream, state.stream)
        assert torch.equal(raw, state.raw)


def test_unrolling_does_not_end_gradients_elsewhere() -> None:
    """A generator left half-way must not leave its mode behind."""
    steps = make_model().unroll(draw_prompts(), 3)
    next(steps)
    assert torch.is_grad_enabled()
    next(steps)
    assert torch.is_grad_enabled()
