"""The loops of the Fully Looped Transformer on linear regression in context: their errors, when
they leave the plateau, and whether they collapse (arXiv 2605.18797)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reloop.conf.schema import ModelConfig, TrainingConfig
from reloop.models.loops.connected import CONNECTIVITIES

from ...grid import Errors, Population, measured
from ..collapse import collapse, plateau_exit
from ..regression import DIMS, regression_runs
from ..settings import StabilitySettings
from .report import draw, report

__all__ = ["draw", "measure", "report"]

# Of the initial error: a smoothed loss below it has left the plateau, and the ASKED variants must
# end below it.
LEFT = 0.7
ASKED, ASKED_LOOPS, ASKED_STEPS = ("LT_i", "FLT", "FLT_res"), 4, 2000
_LAYERS = 2
_CLIP, _DECAY = 1.0, 0.2  # the paper's


def measure(
    settings: StabilitySettings, asked_loops: int = ASKED_LOOPS, asked_steps: int = ASKED_STEPS
) -> dict[str, Any]:
    """`plain`, the errors [seeds] of one loop, the same for all variants; and for each variant and
    number of loops K, of each seed: `error` and `initial` error, `left`, the step that leaves the
    plateau (None: never), and `collapse`, the reason (empty: it did not). `learned`: whether the
    ASKED variants got below 0.7 of their initial error with `asked_loops` loops; empty with fewer
    than `asked_steps` steps."""
    runs = {("LT", 1): variant_runs(settings, "LT", 1)} | all_variants(settings, CONNECTIVITIES)
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    errors_by_key = dict(zip(runs, results, strict=True))
    plain = [error for (error,) in zip(*errors_by_key[("LT", 1)]["errors"], strict=True)]
    errors = [error for error in plain if error is not None]
    reference = float(np.mean(errors)) if errors else None
    variants: dict[str, dict[str, Any]] = {name: {} for name in CONNECTIVITIES}
    for (name, loops), population in runs.items():
        if (name, loops) in variant_keys(settings, CONNECTIVITIES):
            variants[name][str(loops)] = _summed_up(
                population, errors_by_key[name, loops], reference
            )
    result = {
        "loops": list(settings.all_loops),
        "rate": settings.all_rates[0],
        "seeds": list(settings.all_seeds),
        "steps": settings.steps,
        "plain": plain,
        "left_below": LEFT,
        "asked_loops": asked_loops,
        "variants": variants,
    }
    # Fewer steps need not suffice.
    return result | {
        "learned": _learned(variants, asked_loops) if settings.steps >= asked_steps else {}
    }


def variant_keys(settings: StabilitySettings, names: tuple[str, ...]) -> list[tuple[str, int]]:
    """The variants and loops of the settings."""
    return [(name, loops) for name in names for loops in settings.all_loops]


def all_variants(
    settings: StabilitySettings, names: tuple[str, ...]
) -> dict[tuple[str, int], Population]:
    """The runs of some variants at all loops."""
    return {key: variant_runs(settings, *key) for key in variant_keys(settings, names)}


def variant_runs(settings: StabilitySettings, name: Any, loops: int) -> Population:
    """All seeds of one variant and number of loops, from the first step: two of the paper's blocks,
    Adam, gradients clipped at 1, the rate constant and to 0 over the last fifth."""
    model = ModelConfig(n_layer=_LAYERS, injection="none", block="flt", connectivity=name)
    training = TrainingConfig(clip=_CLIP, decay=_DECAY)
    return regression_runs(settings, f"{name}, K = {loops}", loops, model, training)


def _summed_up(population: Population, result: Errors, plain: float | None) -> dict[str, Any]:
    losses = population.curve("loss")[:, 0] / DIMS
    (errors,), (initial,) = result["errors"], result["initial"]
    final_errors = [np.nan if error is None else error for error in errors]
    return {
        "error": errors,
        "initial": initial,
        "left": [
            plateau_exit(curve, LEFT * initial_error)
            for curve, initial_error in zip(losses.T, initial, strict=True)
        ],
        "collapse": [
            collapse(curve, error, plain)
            for curve, error in zip(losses.T, final_errors, strict=True)
        ],
    }


def _learned(
    variants: dict[str, dict[str, Any]], asked_loops: int = ASKED_LOOPS
) -> dict[str, bool]:
    """Whether all seeds of each ASKED variant ended below 0.7 of their initial error."""
    cells = {name: variants[name].get(str(asked_loops)) for name in ASKED}
    return {
        name: all(
            error is not None and error < LEFT * initial_error
            for error, initial_error in zip(cell["error"], cell["initial"], strict=True)
        )
        for name, cell in cells.items()
        if cell is not None
    }
