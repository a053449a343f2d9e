"""The change of a looped transformer's output by one optimiser step, by loops and scaling (arXiv
2606.18524, Figures 4 and 9), and how far its power law in R needs small branches: the slope by the
embedding's standard deviation and by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Panel
from looplab.evaluation.tables import Part, Table

from .near_init import PLACES, STEPS, Stack, all_first_steps, description
from .settings import INITS, SCALINGS, SLOPES_FROM, StabilitySettings
from .tables import LABELS, at_step, loop_curves, rows_of, scaling_curves, slopes, with_errors

_FACTORS = (1 / 16, 1 / 4, 4.0)  # of the init's embedding std
_LAW = (
    "The slopes 1 (none), 1/2 (sqrt) and 0 (linear) are a law of small branches, beside a large\n"
    "embedding: the tables by embedding std and by step show how far it holds."
)


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """Over seeds: for each scaling `norm` [loops] at initialisation; for each of PLACES and scaling
    `change` [loops, steps], `slope` [steps] of log change over log R from 4 loops on, and
    `by_embedding` [stds], the slope at step 1 by the embedding's standard deviation."""
    init, loops = INITS[settings.init_name], settings.all_loops
    large_loops = tuple(r for r in loops if r >= SLOPES_FROM)
    scaled_inits = [init._replace(embedding_std=f * init.embedding_std) for f in _FACTORS]
    parts = [(init, loops, STEPS), *((each, large_loops, 1) for each in scaled_inits)]
    tasks = [
        (each, Stack(r, True, scaling), steps)
        for each, part_loops, steps in parts
        for scaling in SCALINGS
        for r in part_loops
    ]
    results = iter(all_first_steps(tasks, settings.all_seeds, "changes"))
    stds = sorted({each.embedding_std for each, _, _ in parts})
    result: dict[str, Any] = {
        **description(settings, init),
        "steps": STEPS,
        "embedding_stds": stds,
        "norm": {},
        "change": {name: {} for name in PLACES},
        "slope": {name: {} for name in PLACES},
        "by_embedding": {name: {} for name in PLACES},
    }
    first_slopes: dict[tuple[float, str, str], Floats] = {}
    for each, part_loops, _ in parts:
        for scaling in SCALINGS:
            runs = [next(results) for _ in part_loops]
            if each is init:
                norms = np.stack([run.norm[:, 0] for run in runs], axis=1)
                result["norm"][scaling] = with_errors(norms)
            for name in PLACES:
                changes = np.stack([getattr(run, name) for run in runs], axis=1)
                first = slopes(part_loops, changes[:, :, 0], SLOPES_FROM)
                if each is init:
                    slope = slopes(loops, changes.swapaxes(1, 2), SLOPES_FROM)
                    result["change"][name][scaling] = with_errors(changes)
                    result["slope"][name][scaling] = with_errors(slope)
                    first = slope[:, 0]
                first_slopes[each.embedding_std, name, scaling] = first
    for name, by_scaling in result["by_embedding"].items():
        for scaling in SCALINGS:
            columns = [first_slopes[std, name, scaling] for std in stds]
            by_scaling[scaling] = with_errors(np.stack(columns, 1))
    return result


def report(result: dict[str, Any]) -> list[Part]:
    """Norms at initialisation, the changes by step 1, and the slopes."""
    loops, ratio = result["loops"], f"{result['loops'][-1]} / {result['loops'][0]}"
    head = ["R", *map(str, loops)]
    lines: list[Part] = [
        f"a looped transformer, {result['what']}, {result['seeds']} seeds, ± standard error",
        "",
        "root mean square of the stream before the final norm at initialisation",
        Table([*head, ratio], rows_of(result["norm"], lambda means: f"{means[-1] / means[0]:.3g}")),
    ]
    first = next(index for index, r in enumerate(loops) if r >= SLOPES_FROM)
    loop_range = f"R = {loops[first]}…{loops[-1]}"

    def spread(means: list[float]) -> str:
        return f"{max(means[first:]) / min(means[first:]):.3g}"

    for name, place in PLACES.items():
        step_1 = {scaling: at_step(curve, 0) for scaling, curve in result["change"][name].items()}
        lines += [
            "",
            f"change by step 1 {place}, root mean square; most / least over {loop_range}",
            Table([*head, "spread"], rows_of(step_1, spread)),
        ]
    for name, place in PLACES.items():
        steps = range(1, result["steps"] + 1)
        stds = [f"{std:g}" for std in result["embedding_stds"]]
        slopes_by_std = rows_of(result["by_embedding"][name], form=".2f")
        lines += [
            "",
            f"slope of log change over log R, {loop_range}, {place}",
            Table(["step", *map(str, steps)], rows_of(result["slope"][name], form=".2f")),
            Table(["step 1, embedding std", *stds], slopes_by_std),
        ]
    return [*lines, "", _LAW]


def panels(result: dict[str, Any]) -> list[Panel]:
    """Changes by loops at the first step; by step, a panel for each scaling; slopes by step and by
    the embedding's standard deviation; each before the final norm and after it."""
    found, loops, steps = list[Panel](), result["loops"], range(1, result["steps"] + 1)
    moved = "change (root mean square)"
    titles = {place: f"{where}, {result['what']}" for place, where in PLACES.items()}
    for place, title in titles.items():
        values = {name: np.array(of["by_seed"]) for name, of in result["change"][place].items()}
        first = scaling_curves({scaling: of[:, :, 0] for scaling, of in values.items()})
        found.append(
            Panel(
                f"changes-step-1-{place}", f"step 1, {title}", "loops R", moved, loops, first,
                log="xy", picture="changes",
            )
        )  # fmt: skip
        found += [
            Panel(
                f"changes-by-step-{place}-{scaling}", f"{LABELS[scaling]}, {title}",
                "optimiser step", moved, steps, loop_curves(loops, of), log="y",
                picture="changes-steps",
            )
            for scaling, of in values.items()
        ]  # fmt: skip
    for part, axis, x, picture in (
        ("slope", "optimiser step", steps, "changes-by-step"),
        ("by_embedding", "embedding std", result["embedding_stds"], "changes-by-embedding"),
    ):
        for place, title in titles.items():
            values = {name: of["by_seed"] for name, of in result[part][place].items()}
            found.append(
                Panel(
                    f"changes-{part.replace('_', '-')}-{place}", title, axis,
                    "slope of log change over log R", x, scaling_curves(values),
                    log="x" if part == "by_embedding" else "", picture=picture,
                )
            )  # fmt: skip
    return found
