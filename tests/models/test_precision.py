"""Products in bfloat16 over float32 weights: near enough, and no gradient is lost.

A bfloat16 copy of a weight may be kept and used again. One made in the prefix, without gradients,
must not serve the window: its weight would silently stop learning.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.models import Model
from looplab.models.cpu import CpuOperations
from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.operations import Operations
from looplab.models.segment import Span, run_segment
from tests.models.small import WAYS, draw_prompts, make_spec

LOOPS, WINDOW = 6, 3
PROMPTS = draw_prompts(batch=16)
CASES: list[tuple[dict[str, Any], int, int]] = [
    ({"injection": "add", "n_layer": 2}, WINDOW, WINDOW),
    ({"injection": "multiply"}, WINDOW, WINDOW),
    ({"family": "tied"}, 1, LOOPS),
    ({"injection": "concat", "norm": "at_readout", "block": "sandwich"}, WINDOW, WINDOW),
    ({"family": "standard", "n_layer": LOOPS}, 1, LOOPS),
    ({"block": "llama", "attention": "sliding", "pattern": "S", "n_layer": 2}, WINDOW, WINDOW),
    ({"block": "relu2", "attention": "latent", "rank": 8}, WINDOW, WINDOW),
]


def initial_model(changes: dict[str, Any], dtype: torch.dtype | None) -> Model:
    """64 wide with its initial weights; `dtype` of products."""
    model = Model(make_spec(**({"n_embd": 64} | changes)))
    model.compute_dtype = dtype
    return model


def outcome(model: Model, window: int, grad_loops: int) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Predictions, and the gradients of their mean squared error."""
    predictions = model(PROMPTS, LOOPS, window, grad_loops=grad_loops)
    (predictions - PROMPTS.ys).square().mean().backward()
    return predictions.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize(("changes", "window", "grad_loops"), CASES)
def test_predictions_are_near_and_every_gradient_is_there_and_points_the_same_way(
    changes: dict[str, Any], window: int, grad_loops: int
) -> None:
    """bfloat16 rounds a number by up to 2^-9 of its size. A loop rounds some eight times (inputs
    and outputs of four products), at random: sqrt(8) 2^-9 = 0.6 %. Six loops, read-in and read-out,
    independent and none of them damped: sqrt(8) 0.6 % = 1.6 % of the size at most."""
    (exact, wanted), (rounded, found) = (
        outcome(initial_model(changes, dtype), window, grad_loops)
        for dtype in (None, torch.bfloat16)
    )
    assert rounded.dtype == torch.float32
    error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert 1e-4 < error < 0.02, "nothing was rounded" if error < 1e-4 else "too much was rounded"
    for name, expected in wanted.items():
        actual = found[name]
        assert expected is not None
        assert actual is not None, f"{name} has no gradient in bfloat16"
        assert actual.dtype == torch.float32
        assert torch.isfinite(actual).all()
        cosine = F.cosine_similarity(actual.flatten(), expected.flatten(), dim=0)
        ratio = actual.norm() / expected.norm()
        # An error of twice 2 %, backwards included, in any direction: cos 0.04 = 0.9992.
        assert cosine > 0.999, f"{name}: cosine {cosine:.4f}"
        assert 0.95 < ratio < 1.05, f"{name}: ratio {ratio:.4f}"


def test_a_second_pass_sees_new_weights() -> None:
    """No copy of a weight outlives the pass that made it."""
    model = initial_model({}, torch.bfloat16)
    before = model(PROMPTS, LOOPS, WINDOW)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    fresh = initial_model({}, torch.bfloat16)
    fresh.load_state_dict(model.state_dict())
    after = model(PROMPTS, LOOPS, WINDOW)
    assert not torch.allclose(after, before, rtol=0.05)
    assert torch.equal(after, fresh(PROMPTS, LOOPS, WINDOW))


def mixed_model() -> Model:
    """One whose loops without gradients round."""
    model = initial_model({}, None)
    model.prefix_dtype = torch.bfloat16
    return model


@pytest.mark.parametrize("operations", [Operations(), CpuOperations()])
def test_mixed_is_exact_from_the_first_loop_with_gradients_on(operations: Operations) -> None:
    """From the state that the rounded loops leave, all is as in float32, bit for bit."""
    mixed, exact = mixed_model(), initial_model({}, None)
    mixed.operations = exact.operations = operations
    states: list[LoopState] = []

    def noting(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        state, streams = run_segment(loop, state, e, span, context)
        states.append(state)
        return state, streams

    mixed.run_segment = noting
    _, found = outcome(mixed, WINDOW, WINDOW)

    def prefix_given(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        if not span.grad:
            return states[0], e.new_empty(0)
        return run_segment(loop, state, e, span, context)

    exact.run_segment = prefix_given
    _, expected = outcome(exact, WINDOW, WINDOW)
    for gradient, right in zip(found.values(), expected.values(), strict=True):
        assert gradient is not None
        assert right is not None
        assert torch.equal(gradient, right)


def test_mixed_rounds_nothing_where_all_loops_have_gradients() -> None:
    exact, mixed = initial_model({}, None), mixed_model()
    assert torch.equal(mixed(PROMPTS, LOOPS, LOOPS), exact(PROMPTS, LOOPS, LOOPS))
    assert not torch.equal(mixed(PROMPTS, LOOPS, 1), exact(PROMPTS, LOOPS, 1))
    unrolled = [[p for _, p in model.unroll(PROMPTS, LOOPS)] for model in (mixed, exact)]
    assert all(torch.equal(*pair) for pair in zip(*unrolled, strict=True))


@pytest.mark.parametrize("name", WAYS)
def test_weights_in_bfloat16_predict_nearly_the_same(name: str) -> None:
    """As they are loaded to save memory; products are in bfloat16 too, all else is in float32."""
    model = Model(make_spec(**WAYS[name]))
    wanted = model(PROMPTS, 3)
    model.to(torch.bfloat16).compute_dtype = torch.bfloat16
    found = model(PROMPTS, 3)
    assert found.dtype == torch.float32
    assert (found - wanted).norm() < 0.03 * wanted.norm()
