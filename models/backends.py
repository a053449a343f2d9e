"""The backends by name: the code that makes the steps of a model's loop.

use_backend(model, "compile")
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor, nn

from .cpu import CpuOperations
from .kernels.variants import Variants
from .loops.loop import PLAIN, LayerLoop, Loop, LoopState, StepContext, run_blocks
from .model import Model
from .operations import Operations
from .private_torch import limit_versions
from .queries import Layout
from .segment import Segment, Span, make_steps, run_segment

_MOST_VERSIONS = 16  # of a compiled function: two to six are expected


def use_backend(model: Model, name: str, variants: Variants | None = None) -> None:
    """Let a model compute by a backend: `eager` (readable PyTorch, the reference for all others),
    `cpu` (oneDNN's products in it), `compile` (torch.compile of one step) or `triton` (our own
    kernels, by these variants of their operations).

    Raises ValueError for another name, ImportError where Triton is not installed.
    """
    model.run_segment = segment(name, variants)
    model.operations = CpuOperations() if name == "cpu" else Operations()


def segment(name: str, variants: Variants | None = None) -> Segment:
    """The `run_segment` of a backend; errors as `use_backend`. Without variants the kernels are
    fused."""
    if name in ("eager", "cpu"):
        return run_segment
    if name == "compile":
        return _compiled_segment()
    if name == "triton":
        # Imported here alone: not every machine has Triton.
        run = import_module(".kernels.segment", __package__).run_segment
        return cast(Segment, partial(run, variants=variants) if variants else run)
    raise ValueError(f"backend must be eager, cpu, compile or triton, got {name!r}")


def _compiled_segment() -> Segment:
    """A segment whose steps are compiled at first use, at a few seconds per version.

    Two versions serve any number of loops: without gradients (the prefix) and with (the window),
    three where the first loop differs. When the length of the prompts first changes, as many more
    are compiled, which serve every length.
    """
    loop_step = _compiled(_step)
    layer = _compiled(_layer)

    def run(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        def step(state: LoopState, e: Tensor, t: int, context: StepContext) -> LoopState:
            scale, tokens, layout = context
            if isinstance(loop, LayerLoop):
                # The layer's weights are arguments; t would be compiled as a constant.
                x = layer(loop.blocks[t], state.stream, scale, layout)
                state = LoopState(x, x)
            else:
                state = loop_step(loop, state, e, t, scale, layout)
            # Sliced afterwards: a last step of fewer tokens would be one more version to compile.
            carry = None if state.carry is None else state.carry[..., tokens, :]
            return LoopState(state.stream[:, tokens], state.raw[:, tokens], carry)

        with torch.set_grad_enabled(span.grad and torch.is_grad_enabled()):
            # Before an empty prefix the start keeps its graph, or the read-in would not be trained.
            state = _match_gradients(state) if span.count else state
            return make_steps(loop, state, e, span, context, step)

    return run


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled as a whole, in up to `_MOST_VERSIONS` versions. At the next, fullgraph
    makes PyTorch raise an error instead of going on uncompiled."""
    # PyTorch counts versions by code object: with a copy of it each segment has its own count.
    source = cast(FunctionType, function)
    copy = FunctionType(source.__code__.replace(), source.__globals__)
    compiled = torch.compile(copy, fullgraph=True)
    return limit_versions(compiled, _MOST_VERSIONS)


def _match_gradients(state: LoopState) -> LoopState:
    """The state before a segment, whose tensors require gradients all or none, as those between
    steps: otherwise the segment's first step would be another version to compile."""
    requires_grad = torch.is_grad_enabled()

    def match(tensor: Tensor) -> Tensor:
        return (
            tensor
            if tensor.requires_grad == requires_grad
            else tensor.detach().requires_grad_(requires_grad)
        )

    carry = None if state.carry is None else match(state.carry)
    return LoopState(match(state.stream), match(state.raw), carry)


def _step(
    loop: Loop, state: LoopState, e: Tensor, t: int, scale: float, layout: Layout | None
) -> LoopState:
    return loop.step(state, e, t, _context(scale, layout))


def _layer(block: nn.Module, x: Tensor, scale: float, layout: Layout | None) -> Tensor:
    return run_blocks([block], x, _context(scale, layout))


def _context(scale: float, layout: Layout | None) -> StepContext:
    """A context of all tokens. Dynamo of PyTorch 2.11 cannot read the slice that is the default."""
    return StepContext(scale, slice(None), layout)
