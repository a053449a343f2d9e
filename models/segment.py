"""Many steps of a loop: the one function that a faster backend replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .loops.loop import PLAIN, Loop, LoopState, StepContext
from .queries import ALL_TOKENS


@dataclass(frozen=True)
class Span:
    """Which steps a segment makes: `count` of them from step `first` on. The streams of the last
    `keep` are kept. Without `grad` nothing is saved for a backward pass."""

    first: int
    count: int
    keep: int = 0
    grad: bool = False


class Segment(Protocol):
    """What every backend is: the signature and the meaning of `run_segment`."""

    def __call__(
        self,
        loop: Loop,
        state: LoopState,
        e: Tensor,
        span: Span,
        context: StepContext = PLAIN,
    ) -> tuple[LoopState, Tensor]: ...


def run_segment(
    loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
) -> tuple[LoopState, Tensor]:
    """Make the steps of a span: the state after them, and the streams of those kept at the tokens
    that `loop.read` needs, [keep, B, n, n_embd]: the x positions, or those a layout says, and all
    where a coda is to attend to them. The context's own tokens are not looked at.
    A segment that keeps something is the last one: its last state too is that at these alone.

    (`no_grad`, not inference mode: the state that comes out must be allowed into a graph, which a
    multiplicative injection saves it for.)
    """
    with torch.set_grad_enabled(span.grad and torch.is_grad_enabled()):
        return make_steps(loop, state, e, span, context, loop.step)


def make_steps(
    loop: Loop,
    state: LoopState,
    e: Tensor,
    span: Span,
    context: StepContext,
    step: Callable[[LoopState, Tensor, int, StepContext], LoopState],
) -> tuple[LoopState, Tensor]:
    """The steps of a segment by `step`, in whatever gradient mode is on.

    Once a token has been attended to for the last time only those that are read are worth
    computing.
    """
    kept: list[Tensor] = []
    read, last = loop.kept_tokens(context.layout), span.first + span.count - 1
    every, reading = context._replace(tokens=ALL_TOKENS), context._replace(tokens=read)
    for t in range(span.first, last + 1):
        final = span.keep > 0 and t == last
        state = step(state, e, t, reading if final else every)
        if t > last - span.keep:
            kept.append(state.stream if final else state.stream[:, read])
    return state, torch.stack(kept) if kept else e.new_empty(0, *e[:, read].shape)
