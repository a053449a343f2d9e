"""The norm of a transformer's residual stream over its first ten steps, looped and not, by loops
and scaling (arXiv 2606.18524, Figure 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from looplab.evaluation.panel import Panel
from looplab.evaluation.tables import Part, Table

from .near_init import KINDS, SHARED, STEPS, Stack, all_first_steps, description
from .settings import INITS, StabilitySettings
from .tables import LABELS, at_step, loop_curves, rows_of, with_errors


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """`norm`: for each sharing and scaling the root mean square of the last stream before the final
    norm over seeds, [loops, steps + 1], from initialisation on."""
    init, loops = INITS[settings.init_name], settings.all_loops
    tasks = [
        (init, Stack(r, shared, scaling), STEPS)
        for shared in SHARED.values()
        for scaling in LABELS
        for r in loops
    ]
    results = iter(all_first_steps(tasks, settings.all_seeds, "norms"))
    norm = {
        sharing: {
            scaling: with_errors(np.stack([next(results).norm for _ in loops], axis=1))
            for scaling in LABELS
        }
        for sharing in SHARED
    }
    return {**description(settings, init), "steps": STEPS, "norm": norm}


def report(result: dict[str, Any]) -> list[Part]:
    """The norms before the first step and after the last, and their ratio of the most loops to the
    fewest."""
    loops = result["loops"]
    lines: list[Part] = [
        f"root mean square of the stream before the final norm, {result['what']}, "
        f"{result['seeds']} seeds, ± standard error"
    ]
    head = ["R", *map(str, loops), f"{loops[-1]} / {loops[0]}"]
    for step in (0, result["steps"]):
        norms = {
            f"{sharing} {scaling}": at_step(curve, step)
            for sharing, curves in result["norm"].items()
            for scaling, curve in curves.items()
        }
        rows = rows_of(norms, lambda means: f"{means[-1] / means[0]:.3g}")
        lines += ["", f"after {step} steps", Table(head, rows)]
    return lines


def panels(result: dict[str, Any]) -> list[Panel]:
    """Norms by step, a panel for each sharing and scaling, a curve for each number of loops."""
    axes = ("optimiser step", "norm (root mean square)")
    return [
        Panel(
            f"norms-{sharing.replace('_', '-')}-{scaling}",
            f"{KINDS[sharing]}, {LABELS[scaling]}; {result['what']}",
            *axes,
            range(result["steps"] + 1),
            loop_curves(result["loops"], of["by_seed"]),
            log="y",
            picture="norms",
        )
        for sharing, by_scaling in result["norm"].items()
        for scaling, of in by_scaling.items()
    ]
