"""Whole models against the plain loops: every way to loop, in float64, by both passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from reloop.models import Model
from reloop.models.loops.loop import LoopState, StepContext
from tests.models.plain_loops import plain_predictions
from tests.models.small import WAYS, as_double, draw_prompts, make_model

CONNECTED = [
    {"connectivity": connectivity, "block": block, "n_layer": 2}
    for connectivity in ("LT", "LT_i", "LT_ai", "FLT", "FLT_res")
    for block in ("flt", "llama", "gpt2")
]
CASES: list[dict[str, Any]] = [
    *CONNECTED,
    {"connectivity": "FLT", "block": "gpt2", "loops": 4, "residual_scaling": "sqrt"},
    {"connectivity": "FLT_res", "block": "flt", "loops": 2, "residual_scaling": "linear"},
    *WAYS.values(),
    {"family": "standard", "block": "flt", "residual_scaling": "sqrt"},
    {"family": "standard", "block": "llama", "residual_scaling": "factored"},
]


def check(model: Model, loops: int, window: int) -> None:
    """Unrolled and in the forward pass, with gradients cut at the window and reaching further."""
    prompts = as_double(draw_prompts(batch=2, points=5))
    expected = plain_predictions(model, prompts, loops)
    unrolled = [prediction.numpy() for _, prediction in model.unroll(prompts, loops)][1:]
    np.testing.assert_allclose(np.stack(unrolled), expected, rtol=1e-9, atol=1e-9)
    for grad_loops in {window, loops}:
        ours = model(prompts, loops, window, grad_loops=grad_loops).detach().numpy()
        np.testing.assert_allclose(ours, expected[-window:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("changes", CASES, ids=lambda c: "-".join(map(str, c.values())))
def test_predictions_are_those_of_the_plain_loop(changes: dict[str, Any]) -> None:
    model = make_model(**({"n_embd": 8} | changes)).double()
    check(model, loops=3, window=2)


@pytest.mark.parametrize("changes", CONNECTED[::3], ids=lambda c: str(c["connectivity"]))
def test_the_fully_looped_at_other_counts(changes: dict[str, Any]) -> None:
    model = make_model(n_embd=8, **changes).double()
    check(model, loops=1, window=1)
    check(model, loops=4, window=4)


@pytest.mark.parametrize("name", WAYS)
def test_every_parameter_counts(name: str) -> None:
    """In a full pass each gets a gradient that is not zero."""
    model = make_model(**WAYS[name]).double()
    model(as_double(draw_prompts()), 3, 1, grad_loops=3).sum().backward()
    for parameter, weight in model.named_parameters():
        assert weight.grad is not None, parameter
        assert torch.any(weight.grad != 0), parameter


@pytest.mark.parametrize("name", WAYS)
def test_cutting_gradients_is_detaching(name: str) -> None:
    """The window's gradients from a state that was made before and has no history."""
    model, prompts = make_model(**WAYS[name]).double(), as_double(draw_prompts())
    loop, scale = model.loop, model.residual_scale()
    model(prompts, 3, 1, grad_loops=2).sum().backward()
    ours = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    tokens = torch.zeros(3, 12, 3, dtype=torch.float64)
    tokens[:, ::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    e = loop.prepare(model.read_in(tokens))
    state = loop.step(loop.start(e), e, 0, StepContext(scale))
    carry = None if state.carry is None else state.carry.detach()
    state = LoopState(state.stream.detach(), state.raw.detach(), carry)
    for t in (1, 2):
        state = loop.step(state, e, t, StepContext(scale))
    stream = state.stream[:, loop.kept_tokens(None)]
    model.read_out(loop.read(stream)).sum().backward()
    for name_, parameter in model.named_parameters():
        theirs, own = parameter.grad, ours[name_]
        assert (theirs is None) == (own is None), name_
        if theirs is not None and own is not None:
            torch.testing.assert_close(own, theirs, rtol=1e-9, atol=1e-10, msg=name_)
