"""The loops of the fully looped paper: one loop is the plain transformer, a new model does not
know how often it loops, and what each carries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.models import Model, ModelSpec
from reloop.models.loops.connected import CONNECTIVITIES, ConnectedLoop
from reloop.models.loops.loop import Loop, StepContext, run_blocks
from tests.models.small import DIMS, draw_prompts, make_model, make_spec


def connected(connectivity: str, block: str = "flt", **changes: Any) -> Model:
    """Two layers, every number far from its start."""
    shape: dict[str, Any] = {"block": block, "n_layer": 2}
    return make_model(connectivity=connectivity, **(shape | changes))


def drawn(connectivity: str, **changes: Any) -> tuple[Loop, Tensor, Tensor]:
    """A loop, what it prepares of one prompt's five tokens, and another stream."""
    loop, generator = connected(connectivity, **changes).loop, torch.Generator().manual_seed(3)
    e, y = (torch.randn(1, 5, 16, generator=generator) for _ in range(2))
    return loop, loop.prepare(e), y


@pytest.mark.parametrize("connectivity", CONNECTIVITIES)
@pytest.mark.parametrize("attention", [{}, {"attention": "sliding", "pattern": "S"}])
def test_one_loop_is_the_plain_transformer(connectivity: str, attention: dict[str, Any]) -> None:
    """To the bit, weight by weight."""
    ours = connected(connectivity, **attention)
    plain = Model(make_spec("standard", block="flt", n_layer=2, **attention))
    plain.load_state_dict(ours.state_dict())
    assert torch.equal(ours(draw_prompts(), 1), plain(draw_prompts(), 2))


@pytest.mark.parametrize("connectivity", CONNECTIVITIES)
@pytest.mark.parametrize("block", ["llama", "gpt2"])
def test_one_loop_is_the_layers_between_two_norms(connectivity: str, block: str) -> None:
    model = connected(connectivity, block)
    loop, prompts = model.loop, draw_prompts()
    assert isinstance(loop, ConnectedLoop)
    tokens = torch.zeros(3, 12, DIMS)
    tokens[:, ::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    x = model.read_in(tokens)[:, :-1]
    if loop.positions is not None:
        x = x + loop.positions[:11]
    chain = loop.norm(
        run_blocks(loop.blocks, loop.norm_in(x), StepContext(tokens=slice(None, None, 2)))
    )
    assert torch.equal(model(prompts, 1)[0], model.read_out(chain).squeeze(-1))


@pytest.mark.parametrize("connectivity", CONNECTIVITIES)
def test_a_second_loop_is_another_for_each(connectivity: str) -> None:
    """With the same weights: the paper's five differ from each other, but not in one loop."""
    mine = connected(connectivity)(draw_prompts(), 2)
    for other in set(CONNECTIVITIES) - {connectivity}:
        model = connected(other)
        assert not torch.allclose(model(draw_prompts(), 2), mine, rtol=1e-3)


@pytest.mark.parametrize("connectivity", CONNECTIVITIES)
def test_a_new_model_does_not_know_its_loops(connectivity: Any) -> None:
    """All that a new block writes to the stream is zero: any number of loops is norm(norm(x))."""
    spec = ModelSpec(
        dims=DIMS, n_layer=2, n_embd=16, n_head=2, injection="none", connectivity=connectivity,
        block="flt",
    )  # fmt: skip
    model, prompts = Model(spec), draw_prompts()
    first = model(prompts, 1)
    assert first.std() > 0.1
    for loops in range(2, 17):
        torch.testing.assert_close(model(prompts, loops), first, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("connectivity", ["LT_ai", "FLT"])
def test_the_past_is_asked_with_and_nothing_else(connectivity: str) -> None:
    """In one layer a token's query is made of what the last loop gave it; keys and values are not,
    so no other token's past reaches it."""
    loop, e, y = drawn(connectivity, n_layer=1)
    state = loop.start(e)._replace(stream=y.requires_grad_())
    (gradient,) = torch.autograd.grad(loop.step(state, e, 1).stream[0, 2].square().sum(), y)
    assert torch.all(gradient[0, 2] != 0)
    assert torch.all(gradient[0, [0, 1, 3, 4]] == 0)


def test_the_stream_is_reset_at_every_loop() -> None:
    """A loop that goes on from the last output would see it changed by any multiple; one that only
    asks with it, normed, does not."""
    for connectivity in ("LT_ai", "FLT"):
        loop, e, y = drawn(connectivity)
        states = [loop.start(e)._replace(stream=scale * y) for scale in (1.0, 7.0)]
        one, other = (loop.step(state, e, 1).raw for state in states)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
