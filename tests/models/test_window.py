"""Whole models against the formula: positions, injection, norms, where predictions are read, and
gradients of a window of loops, also against a computation unrolled by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from looplab.models import Model
from tests.models.small import Batch, as_double, draw_prompts, make_model

Weights = Mapping[str, Tensor]


class Shape(NamedTuple):
    """What the weights alone do not say."""

    family: str
    injection: str
    n_layer: int
    n_head: int


def layer_norm(x: Tensor, p: Weights, name: str) -> Tensor:
    """Centred, divided by the standard deviation (with 1e-5 under the root), scaled and shifted."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    variance = (centred * centred).sum(-1, keepdim=True) / x.shape[-1]
    return centred / torch.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(x: Tensor, p: Weights, name: str) -> Tensor:
    """x Wᵀ + c."""
    return torch.einsum("...i,oi->...o", x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def attention(x: Tensor, p: Weights, name: str, n_head: int) -> Tensor:
    """Softmax attention to oneself and what stands before, head by head."""
    length, width = x.shape[1:]
    size = width // n_head
    query, key, value = linear(x, p, f"{name}.qkv").split(width, dim=-1)
    future = torch.ones(length, length).triu(1).bool()
    heads = []
    for h in range(n_head):
        part = slice(h * size, (h + 1) * size)
        scores = torch.einsum("bid,bjd->bij", query[..., part], key[..., part]) / math.sqrt(size)
        weights = torch.exp(scores).masked_fill(future, 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        heads.append(torch.einsum("bij,bjd->bid", weights, value[..., part]))
    return linear(torch.cat(heads, dim=-1), p, f"{name}.projection")


def block(x: Tensor, p: Weights, name: str, n_head: int) -> Tensor:
    """x + attention(LN x), then + MLP(LN x) with the tanh form of GELU."""
    x = x + attention(layer_norm(x, p, f"{name}.norm_1"), p, name, n_head)
    h = linear(layer_norm(x, p, f"{name}.norm_2"), p, f"{name}.expand")
    h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return x + linear(h, p, f"{name}.contract")


def read_in(prompts: Batch, p: Weights) -> Tensor:
    """e [B, 2n, D] of the tokens x₁, (y₁, 0, …), x₂, (y₂, 0, …), …"""
    tokens = []
    for i in range(prompts.xs.shape[1]):
        y = prompts.ys[:, i, None]
        tokens += [prompts.xs[:, i], torch.cat((y, 0 * prompts.xs[:, i, 1:]), dim=-1)]
    return linear(torch.stack(tokens, dim=1), p, "read_in")


def streams(
    prompts: Batch, p: Weights, shape: Shape, loops: int, detach_at: int = 0
) -> list[Tensor]:
    """What the read-out reads after each of `loops` loops, [B, 2n, D]; a standard model's loops are
    its layers. The state is cut from its past before loop `detach_at`, where that is not 0."""
    e = read_in(prompts, p)
    positions = p["loop.positions"][: e.shape[1]]
    starts = {"add": 0 * e.detach(), "multiply": 0 * e.detach() + 1, "none": e}
    y = starts[shape.injection]
    if shape.family == "standard":
        y = y + positions
    kept = []
    for t in range(loops):
        if detach_at and t == detach_at:
            y = y.detach()
        if shape.family == "standard":
            y = block(y, p, f"loop.blocks.{t}", shape.n_head)
            kept.append(layer_norm(y, p, "loop.norm"))
            continue
        z = {"add": y + e, "multiply": y * e, "none": y}[shape.injection] + positions
        for layer in range(shape.n_layer):
            z = block(z, p, f"loop.blocks.{layer}", shape.n_head)
        y = layer_norm(z, p, "loop.norm")
        kept.append(y)
    return kept


def predict(stream: Tensor, p: Weights) -> Tensor:
    """Predictions [B, n], read at the inputs' tokens."""
    return linear(stream, p, "read_out")[:, 0::2, 0]


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


Gradients = dict[str, Tensor]

# family and injection, loops, window, grad_loops
WINDOWS: list[tuple[dict[str, Any], int, int, int]] = [
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


@pytest.mark.parametrize(("changes", "loops", "window", "grad_loops"), WINDOWS)
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
