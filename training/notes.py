"""The notes at a run's start about its residual scaling."""

from __future__ import annotations

from reloop.conf.schema import Config
from reloop.curricula import Curriculum
from reloop.models import Model

_FORMULAS = {"sqrt": "1/√R", "linear": "1/R", "factored": "λ/(R√U)"}
_NORM_NOTE = (
    "note: this loop norms its stream each time, and so forgets within about three loops: scaled "
    "branches only weaken its block (model=unnormed has none)"
)


def residual_notes(config: Config, model: Model, curriculum: Curriculum) -> list[str]:
    """Lines with the factor of residual branches, whether it follows the loops, and where it is of
    no use. Empty without residual scaling."""
    shape = config.model
    if shape.residual_scaling == "none":
        return []
    formula, scale = _FORMULAS[shape.residual_scaling], f"{model.residual_scale():.4g}"
    if shape.family == "standard":
        return [f"residual branches x {scale} ({formula}, {shape.n_layer} layers of their own)"]
    first = curriculum(0).scale_loops
    lines = [f"residual branches x {scale} ({formula}, R = {model.spec.loops})"]
    if config.loops.sampling != "none":
        lines[0] += ", however many loops a step draws"
    elif first != model.spec.loops:
        start = f"{model.residual_scale(first):.4g}"
        lines[0] += f"; in training R is the step's loops, from x {start} at R = {first} on"
    return lines if shape.norm == "at_readout" or shape.lanes else [*lines, _NORM_NOTE]
