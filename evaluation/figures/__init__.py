"""The elements of the project's figures; each is saved in the formats asked for, with a CSV of its
values.

with Pictures(folder, settings) as pictures:
    figure = pictures.figure()
    axes = figure.subplots()
    band(axes, loops, curve, "looped, 12 loops", style_of("looped"))
    pictures.title(figure, "linear, d = 10")
    pictures.save(figure, "error_by_loop", "loop", loops, {"model": curve})
"""

from .canvas import Pictures, drawn_once, save, styled
from .curves import (
    AnyCurve,
    Curve,
    band,
    error_axis,
    error_scale,
    heat_map,
    log_above_rounding,
    mark_loops,
    name_curves,
    note_level,
    outer_labels,
    padded,
    parts,
    ticks_at,
    whole_numbers,
)

__all__ = [
    "AnyCurve", "Curve", "Pictures", "band", "drawn_once", "error_axis", "error_scale", "heat_map",
    "log_above_rounding", "mark_loops", "name_curves", "note_level", "outer_labels",
    "padded", "parts", "save", "styled", "ticks_at", "whole_numbers",
]  # fmt: skip
