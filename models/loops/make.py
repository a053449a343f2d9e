"""The loop that a model's shape names."""

from __future__ import annotations

from ..spec import ModelSpec
from .connected import ConnectedLoop
from .loop import LayerLoop, Loop, SharedLoop
from .recurrent import LanesLoop, RecurrentLoop


def make_loop(spec: ModelSpec) -> Loop:
    """The loop, its weights still to be drawn; ValueError for names and numbers that do not fit
    together."""
    block = spec.block_spec()
    if spec.family == "standard":
        return LayerLoop(block)
    if spec.family == "tied":
        return SharedLoop(block, "none")
    if spec.family != "looped":
        raise ValueError(f"family must be looped, tied or standard, got {spec.family!r}")
    if spec.connectivity is not None:
        return ConnectedLoop(block, spec.connectivity)
    if spec.lanes:
        return LanesLoop(block, spec.lanes, spec.loops, spec.prelude, spec.coda)
    if (spec.injection, spec.norm) == ("add", "at_readout") and spec.residual_scaling != "linear":
        raise ValueError(
            "a prompt added at each of R loops to a stream that is never normed must be scaled by "
            f"1/R: residual_scaling must be linear, got {spec.residual_scaling!r}"
        )
    plain = spec.injection != "concat" and spec.norm == "in_loop"
    if plain and not (spec.prelude or spec.coda):
        return SharedLoop(block, spec.injection)
    return RecurrentLoop(block, spec.injection, spec.norm, spec.prelude, spec.coda)
