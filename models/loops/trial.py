"""A user's loop is tried on a prompt, before its mistakes cost a training.

try_loop(model, prompts)
"""

import math
from typing import Any

import torch
from torch import Generator, Tensor

from looplab.conf.plugins import Slip, blamed

from ..model import Model, initialise_loop
from ..readers import PromptBatch
from .loop import Loop, LoopState, StepContext


def try_loop(model: Model, prompts: PromptBatch) -> None:
    """Two loops, forward and backward. Raises Slip for weights that `initialise` does not set, and
    for values that are not finite. So it does for a method that returns something else than its
    base class says."""
    loop = model.loop
    cls = type(loop)
    _try_initialise(loop)
    loops = min(2, loop.most_loops or 2)
    # Method by method first, so that a mistake is blamed on the method that makes it.
    layout = model.reader.layout(prompts, None)
    context = StepContext(model.residual_scale(), layout=layout)
    with torch.no_grad(), model.backend_context(prompts.xs.device):
        read_in = model.read_in(model.reader.tokens(prompts, None))
        with blamed(cls, "prepare"):
            e = loop.prepare(read_in, layout)
        _check(cls, "prepare", Tensor, e, read_in)
        with blamed(cls, "start"):
            state = loop.start(e)
        _check(cls, "start", LoopState, state, e)
        for t in range(loops):
            before = state.stream
            with blamed(cls, "step"):
                state = loop.step(state, e, t, context)
            _check(cls, "step", LoopState, state, before)
    with blamed(cls, "step"):
        # Then as a training does: some mistakes show only with gradients and the window's tokens.
        model(prompts, loops, scale_loops=loops).square().mean().backward()
    model.zero_grad()


def _try_initialise(loop: Loop) -> None:
    """Raises Slip for weights that stay as they are; afterwards they are what they were."""
    weights = dict(loop.named_parameters()) | dict(loop.named_buffers())
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for weight in weights.values():
        # What `initialise` does not set stays nan.
        weight.data.fill_(math.nan if weight.is_floating_point() else 0)
    initialise_loop(loop, Generator().manual_seed(0))
    unset = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if unset:
        problem = f"must set {', '.join(unset)} to finite values"
        raise Slip(type(loop), problem, "initialise")
    for name, weight in weights.items():
        weight.data.copy_(before[name])


def _check(cls: type, name: str, kind: type, value: Any, like: Tensor) -> None:
    """Raises Slip for what a method returned, if it is of another kind or shape, or not finite."""
    stream = getattr(value, "stream", value)
    shape = list(like.shape)
    got = list(stream.shape) if isinstance(stream, Tensor) else ""
    if not isinstance(value, kind) or got != shape:
        problem = f"must return a {kind.__name__} of [B, S, n_embd] = {shape}"
        raise Slip(cls, f"{problem}, and not {type(value).__name__} {got}", name)
    if not stream.isfinite().all():
        raise Slip(cls, "gives values that are not finite", name)
