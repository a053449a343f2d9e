"""Many steps of a loop: the function that a faster backend replaces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .loops.loop import PLAIN, Loop, LoopState, StepContext
from .queries import ALL_TOKENS


@dataclass(frozen=True)
class Span:
    """The steps of a segment: `count` of them from step `first` on. The streams of the last `keep`
    are returned. Without `grad` nothing is saved for a backward pass."""

    first: int
    count: int
    keep: int = 0
    grad: bool = False


class Segment(Protocol):
    """The interface of a backend: the signature and the meaning of `run_segment`."""

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]: ...


def run_segment(
    loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
) -> tuple[LoopState, Tensor]:
    """Make the steps of a span: the state after them, and the streams of the last `keep` at the
    tokens that `loop.read` needs, [keep, B, n, n_embd]: the x positions, or those of a layout, and
    all tokens for a coda. The context's own tokens are ignored.
    A segment with `keep` > 0 is the last one: its last state too has these tokens alone.

    (`no_grad`, not inference mode: the resulting state must be allowed in a graph, since a
    multiplicative injection saves it.)
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
    """The steps of a segment by `step`, in the current gradient mode.

    The last step computes only the tokens that are read: no later step attends to the others.
    """
    streams: list[Tensor] = []
    tokens = loop.kept_tokens(context.layout)
    last = span.first + span.count - 1
    # Steps before the last make all tokens, read or not: they are keys and values of the next step.
    all_context = context._replace(tokens=ALL_TOKENS)
    read_context = context._replace(tokens=tokens)
    for t in range(span.first, last + 1):
        is_last = span.keep > 0 and t == last
        state = step(state, e, t, read_context if is_last else all_context)
        if t > last - span.keep:
            # The last step has cut its stream to these tokens already; twice would drop some.
            streams.append(state.stream if is_last else state.stream[:, tokens])
    # [keep, B, kept tokens, D], also where `keep` is 0.
    return state, torch.stack(streams) if streams else e.new_empty(0, *e[:, tokens].shape)
