"""Many steps of a loop: the one function that a faster backend replaces."""

from __future__ import annotations

import torch
from torch import Tensor

from .loop import Loop, LoopState


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
) -> tuple[LoopState, list[Tensor]]:
    """Make steps first .. first + count - 1 and keep the streams of the last `keep` of them.

    Without `grad` nothing is saved for a backward pass. (`no_grad`, not inference mode: the state
    that comes out must be allowed into a graph, which a multiplicative injection saves it for.)
    """
    kept: list[Tensor] = []
    with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
        for t in range(first, first + count):
            state = loop.step(state, e, t, scale)
            if t >= first + count - keep:
                kept.append(state.stream)
    return state, kept
