"""Gradients of a window of loops against a computation unrolled by hand and cut at its start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.models import Model
from tests.models.formula import Shape, predict, streams
from tests.models.small import as_double, draw_prompts, make_model

Gradients = dict[str, Tensor]

# family and injection, loops, window, grad_loops
CASES: list[tuple[dict[str, Any], int, int, int]] = [
    ({"injection": "add"}, 5, 2, 2),
    ({"injection": "add"}, 5, 5, 5),
    ({"injection": "add"}, 4, 1, 1),
    ({"injection": "add"}, 6, 2, 4),
    ({"injection": "add", "n_layer": 2}, 4, 2, 2),
    ({"injection": "multiply"}, 5, 2, 2),
    ({"injection": "multiply"}, 3, 2, 3),
    ({"family": "tied"}, 4, 1, 4),
    ({"family": "tied"}, 4, 1, 2),
    ({"family": "standard"}, 3, 1, 3),
]


def mixture(predictions: Tensor) -> Tensor:
    """A sum of all predictions, each weighted differently: its gradient is exact in float32 and
    mistakes in the order of loops, prompts or points do not cancel."""
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(predictions.shape, generator=generator)
    return (predictions * weights.to(predictions.dtype)).sum()


def gradients_of(model: Model, loops: int, window: int, grad_loops: int | None) -> Gradients:
    """Gradients from the model itself."""
    model.zero_grad()
    prompts = as_double(draw_prompts())
    mixture(model(prompts, loops, window, grad_loops=grad_loops)).backward()
    named = model.named_parameters()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in named}


def unrolled_gradients(model: Model, loops: int, window: int, grad_loops: int) -> Gradients:
    """Gradients from the formula, its state detached before the last `grad_loops` loops."""
    spec = model.spec
    weights = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    injection = spec.injection if spec.family == "looped" else "none"
    shape = Shape(spec.family, injection, spec.n_layer, spec.n_head)
    prompts = as_double(draw_prompts())
    kept = streams(prompts, weights, shape, loops, detach_at=loops - grad_loops)[-window:]
    mixture(torch.stack([predict(stream, weights) for stream in kept])).backward()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in weights.items()}


@pytest.mark.parametrize(("changes", "loops", "window", "grad_loops"), CASES)
def test_gradient_is_that_of_the_unrolled_window(
    changes: dict[str, Any], loops: int, window: int, grad_loops: int
) -> None:
    model = make_model(**changes).double()
    actual = gradients_of(model, loops, window, grad_loops)
    expected = unrolled_gradients(model, loops, window, grad_loops)
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        size = max(float(gradient.abs().max()), 1.0)
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=1e-10 * size)


def test_gradient_reaches_back_as_far_as_the_window_unless_told() -> None:
    model = make_model().double()
    default, window, further = (gradients_of(model, 5, 2, grad) for grad in (None, 2, 3))
    for name, gradient in default.items():
        assert torch.equal(gradient, window[name])
    name = "loop.blocks.0.qkv.weight"
    assert not torch.allclose(default[name], further[name])


def test_tied_gradients_flow_through_all_loops_to_the_read_in() -> None:
    """Without injection the read-in is met once, at the start: cut off, it gets no gradient."""
    model = make_model("tied").double()
    assert gradients_of(model, 4, 1, 4)["read_in.weight"].abs().min() > 0
    assert torch.all(gradients_of(model, 4, 1, 3)["read_in.weight"] == 0)


def test_the_cut_changes_no_prediction() -> None:
    model, prompts = make_model(), draw_prompts()
    whole = model(prompts, 5, 2, grad_loops=5)
    for grad_loops in (2, 3, 4):
        torch.testing.assert_close(model(prompts, 5, 2, grad_loops=grad_loops), whole)
    torch.testing.assert_close(model(prompts, 5, 5)[-2:], whole)


def test_no_gradient_is_made_where_none_is_wanted() -> None:
    with torch.no_grad():
        assert not make_model()(draw_prompts(), 5, 2).requires_grad
