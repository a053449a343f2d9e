"""The shape of a model."""

from __future__ import annotations

from dataclasses import dataclass


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
