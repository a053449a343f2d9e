"""One step of a loop, for each way to loop: the state between steps and its update.

The looped transformer applies one body repeatedly, with the prompt injected at each step (Yang et
al. 2024, section 4). Weight tying repeats it without injection. A standard transformer is the loop
whose step t is layer t. Loops are independent of the kind of block.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..blocks.make import make_block
from ..blocks.norms import make_norm
from ..blocks.spec import BlockSpec
from ..queries import ALL_TOKENS, Layout, read_at


class LoopState(NamedTuple):
    """The state between two steps, all [B, S, n_embd]: `stream` is read by the next step and, after
    its last norm, by the read-out; `raw` is the same before that norm; `carry` [..., B, S, n_embd]
    is any further state."""

    stream: Tensor
    raw: Tensor
    carry: Tensor | None = None


class StepContext(NamedTuple):
    """The arguments that all steps of a pass share: `scale` multiplies each residual branch, and
    the output is computed at `tokens` alone. `layout` is that of tokens that are no pairs, the one
    that e was prepared with."""

    scale: float = 1.0
    tokens: slice = ALL_TOKENS
    layout: Layout | None = None


PLAIN = StepContext()  # a sequence, all of its tokens, unscaled residual branches


class Loop(nn.Module, ABC):
    """The base class of loops: layers, the final norm and, unless the blocks are rotary, learned
    positions for up to `spec.length` tokens.

    Examples
    --------
    >>> from looplab import Loop, load_run
    >>> isinstance(load_run("shipped/linear").model.loop, Loop)
    True
    """

    most_loops: int | None = None  # the limit of its steps, if any
    reads_tokens = False  # whether it reads tokens and gives predictions: no read-in, no read-out
    positions: nn.Parameter | None

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.spec = spec
        # RoPE has no table: its blocks compute angles from the positions themselves.
        positions = (
            None
            if spec.rotary
            else nn.Parameter(torch.empty(spec.length, spec.n_embd, dtype=torch.float32))
        )
        self.register_parameter("positions", positions)
        self.blocks = make_stack(spec)
        self.norm = make_norm(spec.kind, spec.n_embd)

    def stacks(self) -> dict[str, BlockSpec]:
        """The stacks of blocks by attribute name."""
        return {"blocks": self.spec}

    @abstractmethod
    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        """The input of `start` and `step`, made once from the read-in e [B, S, n_embd]: with the
        positions, if they can be added before the loop. Without a layout the tokens are a
        sequence."""

    @abstractmethod
    def start(self, e: Tensor) -> LoopState:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        """The state after step t (counted from 0), at the context's tokens."""

    def initialise(self) -> None:
        """Set the loop's parameters other than blocks, norms and positions; called after these are
        sampled, and without gradients."""

    def kept_tokens(self, layout: Layout | None) -> slice:
        """The tokens of a kept stream that `read` needs: those of the predictions."""
        return read_at(layout)

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        """The read-out's input from streams [..., B, kept tokens, n_embd], at the tokens of the
        predictions: here the streams themselves, which the loop has normed."""
        return streams

    def _positions(self, e: Tensor, layout: Layout | None) -> Tensor | None:
        """The learned positions of e's tokens, [S, n_embd]."""
        if self.positions is None:
            return None
        if layout is None or layout.positions is None:
            return self.positions[: e.shape[1]]
        # A query has the row of the x that would come next (queries.py), not of its place here.
        return self.positions[layout.positions]

    def _add_positions(self, e: Tensor, layout: Layout | None) -> Tensor:
        """e plus its learned positions, if any; at least in float32."""
        positions = self._positions(e, layout)
        if positions is None:
            return e.to(torch.promote_types(e.dtype, torch.float32))
        return e + positions

    def _body(self, x: Tensor, context: StepContext, memory: Tensor | None = None) -> Tensor:
        """The stream after all layers, whose queries come from `memory`, if given."""
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
    """The stream after all blocks, the last at the context's tokens."""
    scale, tokens, layout = context
    mask, positions = (None, None) if layout is None else (layout.mask, layout.positions)
    last = len(blocks) - 1
    for index, block in enumerate(blocks):
        x = block(
            x,
            memory=memory,
            positions=positions,
            mask=mask,
            scale=scale,
            # Tokens left out by a block could not be attended to by the next one.
            tokens=tokens if index == last else ALL_TOKENS,
        )
    return x


class SharedLoop(Loop):
    """Every step runs the whole body: positions, all layers, final norm.

    `injection` says how the prompt enters: `add` (Y₀ = 0, Y ← M(Y + e)), `multiply` (Y₀ = 1,
    Y ← M(Y · e)) or `none` (Y₀ = e, Y ← M(Y): weight tying).

    Examples
    --------
    >>> from looplab import load_run
    >>> load_run("shipped/linear").model.loop.injection
    'add'
    """

    def __init__(self, spec: BlockSpec, injection: str) -> None:
        super().__init__(spec)
        self.injection = injection

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        # (Y + e) + positions = Y + (e + positions): one addition a step instead of two.
        return self._add_positions(e, layout) if self.injection == "add" else e

    def start(self, e: Tensor) -> LoopState:
        # The neutral element of each injection, so that the first step reads e itself.
        initial = {"add": torch.zeros_like, "multiply": torch.ones_like, "none": torch.clone}
        stream = initial[self.injection](e)
        return LoopState(stream, stream)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        x = self._body(self._inject(state.stream, e, context.layout), context)
        return LoopState(self.norm(x), x)

    def _inject(self, y: Tensor, e: Tensor, layout: Layout | None) -> Tensor:
        if self.injection == "add":
            return y + e
        if self.injection == "none":
            return self._add_positions(y, layout)
        positions = self._positions(e, layout)
        # Without positions the product is at least in float32 too.
        return (
            self._add_positions(y, layout) * e
            if positions is None
            else torch.addcmul(positions, y, e)
        )


class LayerLoop(Loop):
    """A standard transformer: step t runs layer t alone; positions are added once, the norm is at
    the read-out (and, in the fully looped paper's transformer, before the first layer too)."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__(spec)
        self.most_loops = spec.n_layer

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        e = self._add_positions(e, layout)
        # FLT's norms have no parameters, so that the one of the read-out can serve here too.
        return self.norm(e) if self.spec.kind == "flt" else e

    def start(self, e: Tensor) -> LoopState:
        return LoopState(e, e)

    def step(self, state: LoopState, e: Tensor, t: int, context: StepContext = PLAIN) -> LoopState:
        x = run_blocks([self.blocks[t]], state.stream, context)
        return LoopState(x, x)

    def read(self, streams: Tensor, layout: Layout | None = None) -> Tensor:
        return self.norm(streams)
