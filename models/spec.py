"""The shape of a model."""

from __future__ import annotations

from dataclasses import dataclass

from .blocks.spec import BlockSpec


@dataclass(frozen=True)
class ModelSpec:
    """`family` is looped, tied or standard; `classes` = 0 means regression. `n_positions` is the
    most pairs that fit in a prompt, `loops` how many a model is trained to make (R of the residual
    scaling, and as many as its lanes have weights for).

    The other fields say which loop: `connectivity` one of the fully looped paper's; else
    `injection` add, multiply, concat or none, with the stream normed in_loop or at_readout, layers
    of a `prelude` and a `coda`, and `lanes` of hyper-connections where there are any. Those of the
    block, and the `std` of its initial weights, are BlockSpec's; `position_std` is that of learned
    positions.
    """

    dims: int
    family: str = "looped"
    n_layer: int = 1
    n_embd: int = 256
    n_head: int = 8
    n_positions: int = 101
    injection: str = "add"
    classes: int = 0
    loops: int = 1
    connectivity: str | None = None
    norm: str = "in_loop"
    prelude: int = 0
    coda: int = 0
    lanes: int = 0
    residual_scaling: str = "none"
    residual_factor: float = 1.0
    block: str = "gpt2"
    attention: str = "full"
    n_kv: int = 0
    rank: int = 0
    pattern: str = ""
    std: float = 0.02
    position_std: float = 0.02

    def block_spec(self) -> BlockSpec:
        """The shape of the looped stack's blocks; ValueError where it does not fit together."""
        return BlockSpec(
            self.n_embd,
            self.n_head,
            self.n_layer,
            kind=self.block,
            attention=self.attention,
            n_kv=self.n_kv,
            rank=self.rank,
            pattern=self.pattern,
            length=2 * self.n_positions + 1,
            std=self.std,
        )
