"""The loop that a model's shape names."""

from __future__ import annotations

from ..spec import ModelSpec
from .connected import ConnectedLoop
from .loop import LayerLoop, Loop, SharedLoop
from .recurrent import LanesLoop, RecurrentLoop


def make_loop(spec: ModelSpec) -> Loop:
    """The loop, its weights still to be drawn."""
    block = spec.block_spec()
    if spec.family == "standard":
        return LayerLoop(block)
    if spec.family == "tied":
        return SharedLoop(block, "none")
    if spec.connectivity is not None:
        return ConnectedLoop(block, spec.connectivity)
    if spec.lanes:
        return LanesLoop(block, spec.lanes, spec.loops, spec.prelude, spec.coda)
    plain = spec.injection != "concat" and spec.norm == "in_loop"
    if plain and not (spec.prelude or spec.coda):
        return SharedLoop(block, spec.injection)
    return RecurrentLoop(block, spec.injection, spec.norm, spec.prelude, spec.coda)
