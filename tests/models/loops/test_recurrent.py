"""Loops between a prelude and a coda, and lanes: how they start, what is refused, and how far they
go."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.models import Model
from reloop.models.loops.loop import Loop, LoopState, run_blocks
from reloop.models.loops.recurrent import LanesLoop
from tests.models.small import WAYS, as_double, draw_prompts, make_model, make_spec


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


@pytest.mark.parametrize("block", ["gpt2", "llama", "flt"])
def test_lanes_start_by_taking_turns(block: str) -> None:
    """Step t reads lane t mod K; every lane keeps what it held and gets the step's output."""
    loop, e = new_loop(injection="none", lanes=3, loops=7, block=block)
    # Lanes that hold the same, as they do at first, would not show whose turn it is.
    assert loop.get_parameter("lane_read").argmax(1).tolist() == [0, 1, 2, 0, 1, 2, 0]
    state, expected = loop.start(e), [e] * 3
    for t in range(7):
        state = loop.step(state, e, t)
        x = run_blocks(loop.blocks, expected[t % 3])
        s = loop.get_submodule("norm_loop")(x)
        expected = [lane + s for lane in expected]
        assert state.carry is not None
        torch.testing.assert_close(state.raw, x)
        torch.testing.assert_close(state.carry, torch.stack(expected))
        torch.testing.assert_close(state.stream, expected[0] + expected[1] + expected[2])


def test_lanes_end_with_their_weights() -> None:
    model, prompts = make_model(**WAYS["lanes"]), draw_prompts()
    assert model(prompts, 3, 3).shape == (3, 3, 6)
    match = "3 sets of lane weights of its own for its loops and cannot make 4"
    with pytest.raises(ValueError, match=match):
        model(prompts, 4)
    with pytest.raises(ValueError, match=match):
        next(model.unroll(prompts, 4))


@pytest.mark.parametrize("name", [n for n in WAYS if not n.startswith(("lanes", "standard"))])
def test_other_loops_go_on(name: str) -> None:
    """For as long as anyone asks: the stream of none of them runs away in fifty loops."""
    model = make_model(**WAYS[name], spread=0.1)
    assert model.loop.most_loops is None
    assert torch.isfinite(model(draw_prompts(), 50)).all()


def test_a_coda_reads_all_tokens_and_the_loop_ends_at_those() -> None:
    """What the last step may leave out otherwise, its keys and values need."""
    lengths: dict[str, list[int]] = {"blocks": [], "coda": []}
    model = make_model(injection="none", coda=1)
    for stack, seen in lengths.items():
        model.loop.get_submodule(f"{stack}.0.contract").register_forward_hook(
            lambda _module, inputs, _output, seen=seen: seen.append(inputs[0].shape[1])
        )
    model(draw_prompts(), 3, 2)
    assert lengths == {"blocks": [11, 11, 11], "coda": [6]}


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


def test_lanes_are_mixed_without_rounding() -> None:
    """A body that adds nothing to a third of each: sums of lanes in float32 also in autocast."""
    loop = make_model(**WAYS["lanes"] | {"block": "flt"}).loop
    assert isinstance(loop, LanesLoop)
    e = loop.prepare(torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        loop.lane_write.zero_()
        exact = loop.step(loop.start(e), e, 0).stream
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(loop.step(loop.start(e), e, 0).stream, exact)


@pytest.mark.parametrize("scaling", ["none", "sqrt", "factored"])
def test_a_prompt_that_adds_up_is_refused(scaling: str) -> None:
    """Unless it is scaled as the branches are, by one over the loops."""
    with pytest.raises(ValueError, match=f"must be linear with .* got '{scaling}'"):
        make_spec_loop(norm="at_readout", injection="add", residual_scaling=scaling)
    assert make_spec_loop(norm="at_readout", injection="add", residual_scaling="linear")


def make_spec_loop(**changes: Any) -> Model:
    """A new model."""
    return Model(make_spec(**changes))


def test_what_is_added_is_scaled_as_the_branches_are() -> None:
    """The prompt enters an un-normed stream R times by 1/R: with branches that write nothing, R
    loops are the prompt itself."""
    model = Model(
        make_spec(
            injection="add", norm="at_readout", residual_scaling="linear", loops=8, block="flt"
        )
    ).double()
    prompts = as_double(draw_prompts())
    states = [state.stream for state, _ in model.unroll(prompts, 8)]
    for t in range(1, 9):
        torch.testing.assert_close(states[t], states[0] * t / 8)
