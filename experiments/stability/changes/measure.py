"""The change of a looped transformer's output by one optimiser step, by loops and scaling (arXiv
2606.18524, Figures 4 and 9), and how far its power law in R needs small branches: the slope by the
embedding's standard deviation and by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..first_steps import PLACES, STEPS, FirstSteps, all_first_steps
from ..near_init import Stack
from ..settings import INITS, SLOPES_FROM, Init, StabilitySettings
from ..tables import SCALINGS, Floats, description, over_seeds, slopes
from .report import draw, report

__all__ = ["draw", "measure", "report"]

_FACTORS = (1 / 16, 1 / 4, 4.0)  # of the init's embedding std


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """For each scaling, `norm` [seeds, loops] at initialisation; for each of PLACES and scaling
    `change` [seeds, loops, steps], `slope` [seeds, steps] of log change over log R from 4 loops on,
    and `by_embedding` [seeds, stds], the slope at step 1."""
    init = INITS[settings.init_name]
    seeds = settings.all_seeds
    large_loops = [r for r in settings.all_loops if r >= SLOPES_FROM]
    scaled_inits = [init._replace(embedding_std=f * init.embedding_std) for f in _FACTORS]
    tasks = [(init, Stack(r, True, s), STEPS) for s in SCALINGS for r in settings.all_loops]
    tasks += [
        (scaled_init, Stack(r, True, s), 1)
        for scaled_init in scaled_inits
        for s in SCALINGS
        for r in large_loops
    ]
    results = iter(all_first_steps(tasks, seeds, "changes"))
    result: dict[str, Any] = {"norm": {}}
    result |= {part: {name: {} for name in PLACES} for part in ("change", "slope")}
    first_slopes: dict[tuple[float, str, str], Floats] = {}
    for scaling in SCALINGS:
        runs = [next(results) for _ in settings.all_loops]
        result["norm"][scaling] = over_seeds(np.stack([run.norm[:, 0] for run in runs], axis=1))
        for name in PLACES:
            changes = np.stack([getattr(run, name) for run in runs], axis=1)
            slope = slopes(settings.all_loops, changes.swapaxes(1, 2), SLOPES_FROM)
            result["change"][name][scaling] = over_seeds(changes)
            result["slope"][name][scaling] = over_seeds(slope)
            first_slopes[init.embedding_std, name, scaling] = slope[:, 0]
    _add_first_slopes(first_slopes, scaled_inits, large_loops, results)
    stds = sorted({std for std, _, _ in first_slopes})
    result["by_embedding"] = {
        name: {
            s: over_seeds(np.stack([first_slopes[std, name, s] for std in stds], 1))
            for s in SCALINGS
        }
        for name in PLACES
    }
    return description(settings, init) | {"steps": STEPS, "embedding_stds": stds} | result


def _add_first_slopes(
    first_slopes: dict[tuple[float, str, str], Floats],
    inits: list[Init],
    loops: list[int],
    results: Iterator[FirstSteps],
) -> None:
    """Add the slopes at step 1 [seeds] of these inits, whose steps are the next `results`."""
    for init in inits:
        for scaling in SCALINGS:
            runs = [next(results) for _ in loops]
            for name in PLACES:
                changes = np.stack([getattr(run, name)[:, 0] for run in runs], axis=1)
                first_slopes[init.embedding_std, name, scaling] = slopes(
                    loops, changes, SLOPES_FROM
                )
