"""A segment that notes how long the stream is before it is normed."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from reloop.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from reloop.models.segment import Span, run_segment


class Watch:
    """In place of `run_segment`. After the segment that is read, `lengths` are the stream's ‖raw‖
    after its first loop and after its last, each the mean over prompts and the tokens that
    predictions are read at (arXiv 2605.18797's residual norm, there over all tokens)."""

    def __init__(self) -> None:
        self.lengths: tuple[Tensor, Tensor] | None = None

    def __call__(
        self,
        loop: Loop,
        state: LoopState,
        e: Tensor,
        span: Span,
        context: StepContext = PLAIN,
    ) -> tuple[LoopState, Tensor]:
        if not span.keep or span.count == 1:
            state, kept = run_segment(loop, state, e, span, context)
            if span.keep:
                self.lengths = (_length(state.raw), _length(state.raw))
            return state, kept
        state, _ = run_segment(loop, state, e, replace(span, count=1, keep=0), context)
        beginning = _length(state.raw[:, loop.kept_tokens(context.layout)])
        rest = replace(span, first=span.first + 1, count=span.count - 1)
        state, kept = run_segment(loop, state, e, rest, context)
        self.lengths = (beginning, _length(state.raw))
        return state, kept


def _length(raw: Tensor) -> Tensor:
    return torch.linalg.vector_norm(raw.detach(), dim=-1).mean()
