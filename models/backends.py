"""The backends by name: what makes the steps of a model's loop.

use_backend(model, "compile")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn

from .cpu import CpuOperations
from .loops.loop import PLAIN, LayerLoop, Loop, LoopState, StepContext, run_blocks
from .model import Model
from .operations import Operations
from .queries import Layout
from .segment import Segment, Span, make_steps, run_segment

_MOST_VERSIONS = 16  # of one compiled function: two to six are expected
_LIMITS = {"isolate_recompiles": True, "recompile_limit": _MOST_VERSIONS}
if "recompile_limit" not in signature(torch.compile).parameters:  # an older PyTorch has its own
    _LIMITS = {}


def use_backend(model: Model, name: str) -> None:
    """Let a model compute by a backend: `eager` (readable PyTorch, the reference for all others),
    `cpu` (oneDNN's products in it), `compile` (torch.compile of one step) or `triton` (our own
    kernels).

    Raises ValueError for another name, ImportError where Triton is not installed.
    """
    model.run_segment = segment(name)
    model.operations = CpuOperations() if name == "cpu" else Operations()


@contextmanager
def eager(model: Model) -> Iterator[None]:
    """Within, the model computes by the backend `eager`."""
    before = model.run_segment, model.operations
    use_backend(model, "eager")
    try:
        yield
    finally:
        model.run_segment, model.operations = before


def segment(name: str) -> Segment:
    """The `run_segment` of a backend; errors as `use_backend`."""
    if name in ("eager", "cpu"):
        return run_segment
    if name == "compile":
        return _compiled_segment()
    if name == "triton":
        # Imported here alone: not every machine has Triton.
        return cast(Segment, import_module(".kernels.segment", __package__).run_segment)
    raise ValueError(f"backend must be eager, cpu, compile or triton, got {name!r}")


def _compiled_segment() -> Segment:
    """A segment whose steps are compiled when they are first made, at a few seconds a version.

    Two versions serve any number of loops: without gradients (the prefix) and with (the window),
    three where the first loop is another. When the length of the prompts first changes, as many
    more are made, which serve every length.
    """
    # Versions are counted for each run alone, however many a process makes. Past the limit there is
    # an error: only without fullgraph would PyTorch go on uncompiled and say next to nothing.
    compiled: Any = partial(torch.compile, fullgraph=True, **_LIMITS)
    whole_step, layer = compiled(_step), compiled(_layer)

    def run(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        def step(state: LoopState, e: Tensor, t: int, context: StepContext) -> LoopState:
            scale, tokens, layout = context
            if isinstance(loop, LayerLoop):
                # Layer by layer the weights are arguments; t would be part of the code.
                x = layer(loop.blocks[t], state.stream, scale, layout)
                state = LoopState(x, x)
            else:
                state = whole_step(loop, state, e, t, scale, layout)
            # Cut afterwards: a last step of fewer tokens would be one more version to compile.
            carry = None if state.carry is None else state.carry[..., tokens, :]
            return LoopState(state.stream[:, tokens], state.raw[:, tokens], carry)

        with torch.set_grad_enabled(span.grad and torch.is_grad_enabled()):
            state = _alike(state) if span.count else state
            return make_steps(loop, state, e, span, context, step)

    return run


def _alike(state: LoopState) -> LoopState:
    """The state before a segment with gradients wanted of its tensors as of those between steps, of
    all or none: else the segment's first step would be a version of its own."""
    wanted = torch.is_grad_enabled()

    def like(part: Tensor) -> Tensor:
        return part if part.requires_grad == wanted else part.detach().requires_grad_(wanted)

    carry = None if state.carry is None else like(state.carry)
    return LoopState(like(state.stream), like(state.raw), carry)


def _step(
    loop: Loop, state: LoopState, e: Tensor, t: int, scale: float, layout: Layout | None
) -> LoopState:
    return loop.step(state, e, t, StepContext(scale, layout=layout))


def _layer(block: nn.Module, x: Tensor, scale: float, layout: Layout | None) -> Tensor:
    return run_blocks([block], x, StepContext(scale, layout=layout))
