"""One step of a loop, for each way to loop: the state between steps and how it goes on.

The looped transformer applies one body again and again, with the prompt injected anew each time
(Yang et al. 2024, section 4); weight tying repeats it without injection; a standard transformer is
the loop whose step t owns layer t. Which block is looped, no loop knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..blocks.make import make_block
from ..blocks.norms import make_norm
from ..blocks.spec import BlockSpec
from ..queries import ALL_TOKENS, Layout, read_at


class LoopState(NamedTuple):
    """What passes from one step to the next, all [B, S, n_embd]: `stream` is what the next step
    reads and, after its last norm, the read-out; `raw` is the same before that norm; `carry`
    [..., B, S, n_embd] is what else travels."""

    stream: Tensor
    raw: Tensor
    carry: Tensor | None = None


class StepContext(NamedTuple):
    """What all steps of a pass have in common: `scale` multiplies each residual branch, the output
    is wanted at `tokens` alone, and `layout` says where tokens stand that are not a sequence (the
    one that e was prepared with)."""

    scale: float = 1.0
    tokens: slice = ALL_TOKENS
    layout: Layout | None = None


PLAIN = StepContext()  # a sequence, all of its tokens, residual branches as they are


class Loop(nn.Module, ABC):
    """What all loops own: layers, the final norm and, unless the blocks rotate by them, learned
    positions for up to `spec.length` tokens."""

    most_loops: int | None = None  # how many steps it can make, where that has an end
    positions: nn.Parameter | None

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.spec = spec
        learned = None if spec.rotary else nn.Parameter(torch.empty(spec.length, spec.n_embd))
        self.register_parameter("positions", learned)
        self.blocks = make_stack(spec)
        self.norm = make_norm(spec.kind, spec.n_embd)

    def stacks(self) -> dict[str, BlockSpec]:
        """The stacks of blocks by the names they have here."""
        return {"blocks": self.spec}

    @abstractmethod
    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        """What `start` and `step` are given, made once from the read-in e [B, S, n_embd]: with the
        positions, wherever they can be added before the loop. Without a layout the tokens are a
        sequence."""

    @abstractmethod
    def start(self, e: Tensor) -> LoopState:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        """The state after step t (counted from 0), at the context's tokens."""

    def initialise(self) -> None:
        """Set the parameters that the loop has beside blocks, norms and positions, called when
        these are drawn and without gradients."""

    def kept_tokens(self, layout: Layout | None) -> slice:
        """The tokens of a kept stream that `read` needs: those that predictions are made at."""
        return read_at(layout)

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        """Streams [..., B, kept tokens, n_embd] as the read-out wants them, at the tokens that
        predictions are made at: here the loop has normed them."""
        return streams

    def _positions(self, e: Tensor, layout: Layout | None) -> Tensor | None:
        """The learned positions of e's tokens, [S, n_embd]."""
        if self.positions is None:
            return None
        return self.positions[: e.shape[1]] if layout is None else self.positions[layout.positions]

    def _placed(self, e: Tensor, layout: Layout | None) -> Tensor:
        """e with its learned positions; without any, at least in float32 as with them."""
        positions = self._positions(e, layout)
        if positions is None:
            return e.to(torch.promote_types(e.dtype, torch.float32))
        return e + positions

    def _body(self, x: Tensor, context: StepContext, memory: Tensor | None = None) -> Tensor:
        """All layers; all read their queries from `memory`, if given."""
        return run_blocks(self.blocks, x, context, memory)


def make_stack(spec: BlockSpec) -> nn.ModuleList:
    """The blocks of a stack."""
    return nn.ModuleList(make_block(spec, layer) for layer in range(spec.n_layer))


def run_blocks(
    blocks: nn.ModuleList | list[nn.Module],
    x: Tensor,
    context: StepContext = PLAIN,
    memory: Tensor | None = None,
) -> Tensor:
    """Blocks one after another, the last at the context's tokens."""
    scale, tokens, layout = context
    mask, positions = (None, None) if layout is None else (layout.mask, layout.positions)
    last = len(blocks) - 1
    for index, block in enumerate(blocks):
        x = block(
            x, memory=memory, positions=positions, mask=mask, scale=scale,
            tokens=tokens if index == last else ALL_TOKENS,
        )  # fmt: skip
    return x


class SharedLoop(Loop):
    """Every step runs the whole body: positions, all layers, final norm.

    `injection` says how the prompt enters: `add` (Y₀ = 0, Y ← M(Y + e)), `multiply` (Y₀ = 1,
    Y ← M(Y · e)) or `none` (Y₀ = e, Y ← M(Y): weight tying).
    """

    def __init__(self, spec: BlockSpec, injection: str) -> None:
        super().__init__(spec)
        self.injection = injection

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        # (Y + e) + positions = Y + (e + positions): one addition a step instead of two.
        return self._placed(e, layout) if self.injection == "add" else e

    def start(self, e: Tensor) -> LoopState:
        first = {"add": torch.zeros_like, "multiply": torch.ones_like, "none": torch.clone}
        state = first[self.injection](e)
        return LoopState(state, state)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        x = self._body(self._inject(state.stream, e, context.layout), context)
        return LoopState(self.norm(x), x)

    def _inject(self, y: Tensor, e: Tensor, layout: Layout | None) -> Tensor:
        if self.injection == "add":
            return y + e
        if self.injection == "none":
            return self._placed(y, layout)
        positions = self._positions(e, layout)
        # Without positions the product too is at least in float32, as with them.
        return self._placed(y, layout) * e if positions is None else torch.addcmul(positions, y, e)


class LayerLoop(Loop):
    """A standard transformer: step t runs layer t alone; positions enter once, the norm stands at
    the read-out (and, in the fully looped paper's transformer, before the first layer too)."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__(spec)
        self.most_loops = spec.n_layer

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        e = self._placed(e, layout)
        return self.norm(e) if self.spec.kind == "flt" else e

    def start(self, e: Tensor) -> LoopState:
        return LoopState(e, e)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        x = run_blocks([self.blocks[t]], state.stream, context)
        return LoopState(x, x)

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        return self.norm(streams)
