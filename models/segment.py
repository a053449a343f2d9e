"""Many steps of a loop: the one function that a faster backend replaces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from .loops.loop import Loop, LoopState
from .queries import ALL_TOKENS, Layout


class Segment(Protocol):
    """What every backend is: the signature and the meaning of `run_segment`."""

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
    ) -> tuple[LoopState, Tensor]: ...


def run_segment(
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
    """Make steps first .. first + count - 1: the state after them, and the streams of the last
    `keep` of them at the tokens that `loop.read` needs, [keep, B, n, n_embd]: the x positions, or
    those a layout says, and all where a coda is to attend to them.
    A segment that keeps something is the last one: its last state too is that at these alone.

    Without `grad` nothing is saved for a backward pass. (`no_grad`, not inference mode: the state
    that comes out must be allowed into a graph, which a multiplicative injection saves it for.)
    """
    with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
        step = partial(loop.step, layout=layout)
        return make_steps(
            step, state, e, first=first, count=count, keep=keep, scale=scale,
            read=loop.kept_tokens(layout),
        )  # fmt: skip


def make_steps(
    step: Callable[[LoopState, Tensor, int, float, slice], LoopState],
    state: LoopState,
    e: Tensor,
    *,
    first: int,
    count: int,
    keep: int,
    scale: float,
    read: slice,
) -> tuple[LoopState, Tensor]:
    """The steps of a segment by `step(state, e, t, scale, tokens)`, in whatever gradient mode is
    on.

    Once a token has been attended to for the last time only those that are `read` are worth
    computing.
    """
    kept: list[Tensor] = []
    last = first + count - 1
    for t in range(first, last + 1):
        final = keep > 0 and t == last
        state = step(state, e, t, scale, read if final else ALL_TOKENS)
        if t > last - keep:
            kept.append(state.stream if final else state.stream[:, read])
    return state, torch.stack(kept) if kept else e.new_empty(0, *e[:, read].shape)
