"""Looped linear attention: the papers' matrices, one prefix at a time, and gradient descent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reloop.conf.mistakes import ConfigError
from reloop.evaluation.baselines.iterates import gradient_descent, normal_equations, predictions
from reloop.evaluation.bootstrap import Floats
from reloop.models import Model, ModelSpec, Queries
from reloop.models.loops.linear_attention import LinearAttentionLoop
from reloop.tasks import Prompts


def linear_attention(dims: int = 3, seed: int = 0) -> Model:
    """With random parameters, so that no part of a formula is zero."""
    model = Model(ModelSpec(dims=dims, n_embd=dims, n_head=1, injection="linear_attention"))
    generator = torch.Generator().manual_seed(seed)
    assert isinstance(model.loop, LinearAttentionLoop)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / 2
    return model


def draw(batch: int = 2, points: int = 6, dims: int = 3) -> Prompts:
    generator = torch.Generator().manual_seed(3)
    xs = torch.randn(batch, points, dims, generator=generator)
    return Prompts(xs, torch.randn(batch, points, generator=generator))


def papers_prediction(model: Model, xs: Floats, ys: Floats, x: Floats, n: int, loops: int) -> float:
    """Z ← Z − P Z M (Zᵀ Q Z) / n in full, of one prompt; minus the query's label afterwards."""
    attention = model.loop.attention.detach().double().numpy()  # type: ignore[operator]
    u = model.loop.input_values.detach().double().numpy()  # type: ignore[operator]
    dims, pairs = len(x), len(ys)
    Z = np.zeros((dims + 1, pairs + 1))
    Z[:dims, :pairs], Z[dims, :pairs], Z[:dims, pairs] = xs.T, ys, x
    P, Q, M = np.zeros((dims + 1,) * 2), np.zeros((dims + 1,) * 2), np.eye(pairs + 1)
    P[dims, :dims], P[dims, dims], Q[:dims, :dims], M[pairs, pairs] = u, 1, attention, 0
    for _ in range(loops):
        Z = Z - P @ Z @ M @ (Z.T @ Q @ Z) / n
    return float(-Z[dims, pairs])


def test_it_is_the_papers_product_of_matrices_for_every_prefix() -> None:
    model, prompts = linear_attention(), draw()
    ours = model(prompts, loops=3, window=2)
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    for loops, values in ((2, ours[0]), (3, ours[1])):
        for b in range(2):
            for k in range(6):
                expected = papers_prediction(model, xs[b, :k], ys[b, :k], xs[b, k], 5, loops)
                assert values[b, k].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_unrolling_and_queries_give_the_same_predictions() -> None:
    model, prompts = linear_attention(), draw()
    expected = model(prompts, loops=4, window=4)
    steps = [prediction for _, prediction in model.unroll(prompts, 4)][1:]
    torch.testing.assert_close(torch.stack(steps), expected)
    queries = Queries(prompts.xs, torch.arange(6))
    torch.testing.assert_close(model(prompts, 4, 4, queries=queries), expected)


def test_a_query_may_see_every_pair() -> None:
    model, prompts = linear_attention(), draw()
    query = torch.full((2, 1, 3), 0.7)
    (value,) = model(prompts, 2, queries=Queries(query, torch.tensor([6])))
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    expected = papers_prediction(model, xs[1], ys[1], np.full(3, 0.7), 6, 2)
    assert value[1, 0].item() == pytest.approx(expected, rel=1e-4)


def test_without_values_of_inputs_it_is_preconditioned_gradient_descent() -> None:
    model, prompts = linear_attention(), draw()
    model.loop.input_values.data.zero_()  # type: ignore[operator]
    preconditioner = model.loop.attention.detach().double().numpy().T  # type: ignore[operator]
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    steps = gradient_descent(normal_equations(xs, ys), 1 / 5, preconditioner)
    expected = predictions(xs, steps, [3])[0]
    np.testing.assert_allclose(model(prompts, 3)[0].detach().numpy(), expected, rtol=1e-4)


def test_the_last_prediction_alone_has_a_gradient() -> None:
    model, prompts = linear_attention(), draw()
    model(prompts, 2, grad_loops=2)[..., :-1].sum().backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)
    model(prompts, 2, grad_loops=2)[..., -1].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_its_parameters_are_those_two_and_begin_at_zero() -> None:
    model = Model(ModelSpec(dims=4, n_embd=4, n_head=1, injection="linear_attention"))
    assert {name: p.shape for name, p in model.named_parameters()} == {
        "loop.attention": (4, 4),
        "loop.input_values": (4,),
    }
    assert not any(parameter.any() for parameter in model.parameters())
    assert model.backbone_parameters() == 20


def test_classes_are_refused() -> None:
    with pytest.raises(ConfigError, match="linear_attention for a task with classes"):
        ModelSpec(dims=4, n_embd=4, n_head=1, classes=2, injection="linear_attention")
