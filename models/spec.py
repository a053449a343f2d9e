"""The shape of a model."""

from __future__ import annotations

from dataclasses import dataclass

from .block_spec import BlockSpec


@dataclass(frozen=True)
class ModelSpec:
    """`family` is looped, tied or standard, `injection` add, multiply or none; `classes` = 0 means
    regression. `n_positions` is the most pairs that fit in a prompt."""

    dims: int
    family: str = "looped"
    n_layer: int = 1
    n_embd: int = 256
    n_head: int = 8
    n_positions: int = 101
    injection: str = "add"
    classes: int = 0

    def block_spec(self) -> BlockSpec:
        """The shape of the looped stack's blocks; ValueError where it does not fit together."""
        return BlockSpec(self.n_embd, self.n_head, self.n_layer)
