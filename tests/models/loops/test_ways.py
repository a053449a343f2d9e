"""Each way to loop: connected as in the fully looped paper, between a prelude and a coda, with
lanes, and with linear attention."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.evaluation.bootstrap import Floats
from looplab.models import Model, ModelSpec, Queries
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.models.loops.loop import Loop, LoopState, run_blocks
from looplab.tasks import Prompts
from tests.models.small import WAYS, draw_prompts, make_spec


def new_loop(**changes: Any) -> tuple[Loop, Tensor]:
    """The loop of a new model, and what it prepares of a stream."""
    loop = Model(make_spec(**changes)).double().loop
    generator = torch.Generator().manual_seed(3)
    return loop, loop.prepare(torch.randn(2, 5, 16, generator=generator, dtype=torch.float64))


def test_a_projection_starts_as_the_identity_on_the_prompt() -> None:
    """Whatever the state, the step is the body's on e."""
    loop, e = new_loop(injection="concat", prelude=1, block="llama")
    for s in (e, 0 * e, 100 - e):
        state = loop.step(LoopState(s, s), e, 0)
        assert torch.equal(state.raw, run_blocks(loop.blocks, e))
    assert loop.get_parameter("inject.weight").shape == (16, 32)


def test_lanes_start_by_taking_turns() -> None:
    """Step t reads lane t mod K; every lane keeps what it held and gets the step's output."""
    loop, _ = new_loop(injection="none", lanes=3, loops=7)
    read, mix, write = (loop.get_parameter(f"lane_{name}") for name in ("read", "mix", "write"))
    assert torch.equal(read, torch.eye(3).double()[torch.arange(7) % 3])
    assert torch.equal(mix, torch.eye(3).double().expand(7, 3, 3))
    assert torch.equal(write, torch.ones(7, 3).double())


def test_bf16_rounds_products_but_no_state() -> None:
    """Every way to loop keeps its stream, and lanes theirs, in float32 and near the exact one."""
    for name, changes in WAYS.items():
        exact, rounded = (Model(make_spec(**({"n_embd": 64} | changes))) for _ in range(2))
        rounded.compute_dtype = torch.bfloat16
        prompts = draw_prompts(batch=16)
        for state, _ in list(rounded.unroll(prompts, 3))[1:]:
            parts = [part for part in state if part is not None]
            assert {part.dtype for part in parts} == {torch.float32}, name
        ours, theirs = rounded(prompts, 3), exact(prompts, 3)
        assert (ours - theirs).norm() < 0.016 * theirs.norm(), name
        assert not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5), name


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


def test_the_last_prediction_alone_has_a_gradient() -> None:
    model, prompts = linear_attention(), draw()
    model(prompts, 2, grad_loops=2)[..., :-1].sum().backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)
    model(prompts, 2, grad_loops=2)[..., -1].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
