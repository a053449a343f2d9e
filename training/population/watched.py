"""A segment that notes how long the stream is before it is normed."""

from __future__ import annotations

import torch
from torch import Tensor

from reloop.models.loops.loop import Loop, LoopState
from reloop.models.queries import Layout
from reloop.models.segment import run_segment


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
        *,
        first: int,
        count: int,
        keep: int,
        grad: bool,
        scale: float = 1.0,
        layout: Layout | None = None,
    ) -> tuple[LoopState, Tensor]:
        if not keep or count == 1:
            state, kept = run_segment(
                loop, state, e, first=first, count=count, keep=keep, grad=grad, scale=scale,
                layout=layout,
            )  # fmt: skip
            if keep:
                self.lengths = (_length(state.raw), _length(state.raw))
            return state, kept
        state, _ = run_segment(
            loop, state, e, first=first, count=1, keep=0, grad=grad, scale=scale, layout=layout
        )
        beginning = _length(state.raw[:, loop.kept_tokens(layout)])
        state, kept = run_segment(
            loop, state, e, first=first + 1, count=count - 1, keep=keep, grad=grad, scale=scale,
            layout=layout,
        )  # fmt: skip
        self.lengths = (beginning, _length(state.raw))
        return state, kept


def _length(raw: Tensor) -> Tensor:
    return torch.linalg.vector_norm(raw.detach(), dim=-1).mean()
