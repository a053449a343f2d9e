"""A user's loop is tried on a prompt, before its mistakes cost a training.

try_loop(model, prompts)
"""

import math
from collections.abc import Callable
from typing import Any

from torch import Generator, Tensor

from looplab.conf.plugins import Slip, blamed

from ..model import Model, initialise_loop
from ..readers import PromptBatch
from .loop import LoopState

_METHODS = {"prepare": 0, "start": 0, "step": 1}  # and the place of e, [B, S, n_embd], among theirs


def try_loop(model: Model, prompts: PromptBatch) -> None:
    """Two loops, forward and backward. Raises Slip for weights that `initialise` does not set, for
    a method that returns something else than its base class says, or values that are not finite."""
    loop = model.loop
    loops = min(2, model.loop.most_loops or 2)
    cls = type(model.loop)
    weights = {**dict(loop.named_parameters()), **dict(loop.named_buffers())}
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for weight in weights.values():
        weight.data.fill_(math.nan if weight.is_floating_point() else 0)
    initialise_loop(loop, Generator().manual_seed(0))
    if unset := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise Slip(cls, f"must set {', '.join(unset)} to finite values", "initialise")
    for name, weight in weights.items():
        weight.data.copy_(before[name])
    for name, place in _METHODS.items():
        setattr(loop, name, _watched(cls, name, getattr(loop, name), place))
    try:
        for _ in model.unroll(prompts, loops):
            pass
    finally:
        for name in _METHODS:
            delattr(loop, name)
    with blamed(cls, "step"):
        model(prompts, loops, scale_loops=loops).square().mean().backward()
    model.zero_grad()


def _watched(cls: type, name: str, method: Callable[..., Any], place: int) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with blamed(cls, name):
            value = method(*arguments)
        wanted = Tensor if name == "prepare" else LoopState
        found = getattr(value, "stream", value)
        shape = arguments[place].shape
        if not isinstance(value, wanted) or not isinstance(found, Tensor) or found.shape != shape:
            got = f"{type(value).__name__} {[*found.shape] if isinstance(found, Tensor) else ''}"
            problem = f"must return a {wanted.__name__} of [B, S, n_embd] = {list(shape)}"
            raise Slip(cls, f"{problem}, and not {got}", name)
        if not found.isfinite().all():
            raise Slip(cls, "gives values that are not finite", name)
        return value

    return call
