"""One step of a loop, for each way to loop: the state between steps and how it goes on.

The looped transformer applies one body again and again, with the prompt injected anew each time
(Yang et al. 2024, section 4); weight tying repeats it without injection; a standard transformer is
the loop whose step t owns layer t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .blocks import Block
from .queries import ALL_TOKENS, Layout


class LoopState(NamedTuple):
    """What passes from one step to the next, both [B, S, n_embd]: `stream` is what the next step
    reads and, after its last norm, the read-out; `raw` is the same before that norm."""

    stream: Tensor
    raw: Tensor


class Loop(nn.Module, ABC):
    """What all loops own: layers, learned positions and the final LayerNorm."""

    most_loops: int | None = None  # how many steps it can make, where that has an end

    def __init__(self, n_layer: int, n_embd: int, n_head: int, length: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.empty(length, n_embd))
        self.blocks = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.norm = nn.LayerNorm(n_embd)

    @abstractmethod
    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        """What `start` and `step` are given, made once from the read-in e [B, S, n_embd]: with the
        positions, wherever they can be added before the loop. Without a layout the tokens are a
        sequence."""

    @abstractmethod
    def start(self, e: Tensor) -> LoopState:
        """The state before the first step."""

    @abstractmethod
    def step(
        self,
        state: LoopState,
        e: Tensor,
        t: int,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
        layout: Layout | None = None,
    ) -> LoopState:
        """The state after step t (counted from 0), at these of its tokens. The layout is the one
        that e was prepared with."""

    def read(self, streams: Tensor) -> Tensor:
        """Streams [..., n_embd] as the read-out wants them: here the loop has normed them."""
        return streams

    def _positions(self, e: Tensor, layout: Layout | None) -> Tensor:
        """The positions of e's tokens, [S, n_embd]."""
        return self.positions[: e.shape[1]] if layout is None else self.positions[layout.positions]


class SharedLoop(Loop):
    """Every step runs the whole body: positions, all layers, final norm.

    `injection` says how the prompt enters: `add` (Y₀ = 0, Y ← M(Y + e)), `multiply` (Y₀ = 1,
    Y ← M(Y · e)) or `none` (Y₀ = e, Y ← M(Y): weight tying).
    """

    def __init__(self, n_layer: int, n_embd: int, n_head: int, length: int, injection: str) -> None:
        super().__init__(n_layer, n_embd, n_head, length)
        if injection not in ("add", "multiply", "none"):
            raise ValueError(f"injection must be add, multiply or none, got {injection!r}")
        self.injection = injection

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        # (Y + e) + positions = Y + (e + positions): one addition a step instead of two.
        return e + self._positions(e, layout) if self.injection == "add" else e

    def start(self, e: Tensor) -> LoopState:
        first = {"add": torch.zeros_like, "multiply": torch.ones_like, "none": torch.clone}
        state = first[self.injection](e)
        return LoopState(state, state)

    def step(
        self,
        state: LoopState,
        e: Tensor,
        t: int,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
        layout: Layout | None = None,
    ) -> LoopState:
        x, mask = state.stream, None if layout is None else layout.mask
        if self.injection == "add":
            x = x + e
        elif self.injection == "multiply":
            x = torch.addcmul(self._positions(e, layout), x, e)
        else:
            x = x + self._positions(e, layout)
        for block in self.blocks[:-1]:
            x = block(x, mask=mask, scale=scale)
        x = self.blocks[-1](x, mask=mask, scale=scale, tokens=tokens)
        return LoopState(self.norm(x), x)


class LayerLoop(Loop):
    """A standard transformer: step t runs layer t alone; positions enter once, the norm stands at
    the read-out."""

    def __init__(self, n_layer: int, n_embd: int, n_head: int, length: int) -> None:
        super().__init__(n_layer, n_embd, n_head, length)
        self.most_loops = n_layer

    def prepare(self, e: Tensor, layout: Layout | None = None) -> Tensor:
        return e + self._positions(e, layout)

    def start(self, e: Tensor) -> LoopState:
        return LoopState(e, e)

    def step(
        self,
        state: LoopState,
        e: Tensor,
        t: int,
        scale: float = 1.0,
        tokens: slice = ALL_TOKENS,
        layout: Layout | None = None,
    ) -> LoopState:
        mask = None if layout is None else layout.mask
        x = self.blocks[t](state.stream, mask=mask, scale=scale, tokens=tokens)
        return LoopState(x, x)

    def read(self, streams: Tensor) -> Tensor:
        return self.norm(streams)
