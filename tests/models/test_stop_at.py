"""Loops without gradients end where the state has settled: as if fewer had been asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from reloop.models import Model
from reloop.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from reloop.models.segment import Span, run_segment
from tests.models.small import as_double, draw_prompts, make_model

LOOPS, WINDOW = 30, 2
PROMPTS = draw_prompts(batch=5)


def settling(layers: int = 1) -> tuple[Model, list[Span]]:
    """A model near its initial weights, whose state settles, and the spans that it makes."""
    model, spans = make_model(spread=0.05, n_layer=layers).double(), []

    def noting(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        spans.append(span)
        return run_segment(loop, state, e, span, context)

    model.run_segment = noting
    return model, spans


def outcome(model: Model, loops: int, stop_at: float = 0.0) -> tuple[Tensor, Tensor]:
    """Predictions of the window, and a gradient of theirs."""
    model.zero_grad()
    predictions = model(as_double(PROMPTS), loops, WINDOW, stop_at=stop_at)
    predictions.square().sum().backward()
    assert model.read_in.weight.grad is not None
    return predictions.detach(), model.read_in.weight.grad.clone()


@pytest.mark.parametrize("layers", [1, 2])
def test_it_ends_at_the_first_loop_that_changes_the_median_prompt_no_more(layers: int) -> None:
    model, spans = settling(layers)
    steps = list(model.unroll(as_double(PROMPTS), LOOPS))[1:]
    states = [state.stream[:, :-1].flatten(1) for state, _ in steps]  # without the last y
    for stop_at in (0.5, 0.03, 1e-3):
        changes = [
            ((b - a).norm(dim=1) / b.norm(dim=1)).sort().values[2] for a, b in pairwise(states)
        ]
        needed = 2 + next(i for i, change in enumerate(changes) if change <= stop_at)
        assert needed < LOOPS - WINDOW
        spans.clear()
        found = outcome(model, LOOPS, stop_at)
        assert sum(span.count for span in spans if not span.grad) == needed
        for ours, fewer in zip(found, outcome(model, needed + WINDOW), strict=True):
            assert torch.equal(ours, fewer)


@pytest.mark.parametrize(("restless", "needed"), [(2, 2), (3, LOOPS - WINDOW)])
def test_it_does_not_wait_for_prompts_that_never_settle(restless: int, needed: int) -> None:
    """Of five prompts the first few repeat two states in turn, and the others one."""
    model, spans = settling()

    def repeating(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        if span.grad:
            return run_segment(loop, state, e, span, context)
        spans.append(span)
        turned = torch.cat((-e[:restless], e[restless:]))
        stream = turned if span.first % 2 else e
        return LoopState(stream, stream), e.new_empty(0)

    model.run_segment = repeating
    outcome(model, LOOPS, 1e-3)
    assert sum(span.count for span in spans) == needed


def test_off_or_never_reached_changes_nothing() -> None:
    model, spans = settling()
    full = outcome(model, LOOPS)
    assert [span.count for span in spans] == [LOOPS - WINDOW, WINDOW]
    for ours, right in zip(outcome(model, LOOPS, 1e-300), full, strict=True):
        assert torch.equal(ours, right)


def test_what_is_lost_is_what_the_loops_would_have_changed() -> None:
    model, _ = settling()
    full, _ = outcome(model, LOOPS)
    errors = [(outcome(model, LOOPS, s)[0] - full).norm() / full.norm() for s in (0.1, 1e-2, 1e-4)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_a_state_that_is_not_finite_ends_nothing() -> None:
    model, spans = settling()
    with torch.no_grad():
        model.read_in.weight.fill_(torch.nan)
    model(as_double(PROMPTS), LOOPS, WINDOW, stop_at=1.0)
    assert sum(span.count for span in spans) == LOOPS
