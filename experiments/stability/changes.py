"""The change of a looped transformer's output by one optimiser step, by loops and scaling (arXiv
2606.18524, Figures 4 and 9), and how far its power law in R needs small branches: the slope by the
embedding's standard deviation and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from looplab.evaluation.figures import (
    Pictures,
    band,
    name_curves,
    outer_labels,
    ticks_at,
    whole_numbers,
)
from looplab.evaluation.style import style_of
from looplab.evaluation.tables import Part, Table

from .near_init import PLACES, STEPS, Stack, all_first_steps
from .settings import INITS, SCALINGS, SLOPES_FROM, StabilitySettings
from .tables import (
    Description,
    Floats,
    OverSeeds,
    at_step,
    band_of,
    csv_columns,
    description,
    over_seeds,
    rows_of,
    slopes,
)

_FACTORS = (1 / 16, 1 / 4, 4.0)  # of the init's embedding std
_LAW = (
    "The slopes 1 (none), 1/2 (sqrt) and 0 (linear) are a law of small branches, beside a large\n"
    "embedding: the tables by embedding std and by step show how far it holds."
)


class Changes(Description):
    """For each scaling, `norm` [loops] at initialisation; for each of PLACES and scaling `change`
    [loops, steps], `slope` [steps] of log change over log R from 4 loops on, and `by_embedding`
    [stds], the slope at step 1."""

    steps: int
    embedding_stds: list[float]
    norm: dict[str, OverSeeds[list[float]]]
    change: dict[str, dict[str, OverSeeds[list[list[float]]]]]
    slope: dict[str, dict[str, OverSeeds[list[float]]]]
    by_embedding: dict[str, dict[str, OverSeeds[list[float]]]]


def measure(settings: StabilitySettings) -> Changes:
    """The changes of all seeds, and their slopes."""
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
    result: Changes = {
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
                result["norm"][scaling] = over_seeds(norms)
            for name in PLACES:
                changes = np.stack([getattr(run, name) for run in runs], axis=1)
                first = slopes(part_loops, changes[:, :, 0], SLOPES_FROM)
                if each is init:
                    slope = slopes(loops, changes.swapaxes(1, 2), SLOPES_FROM)
                    result["change"][name][scaling] = over_seeds(changes)
                    result["slope"][name][scaling] = over_seeds(slope)
                    first = slope[:, 0]
                first_slopes[each.embedding_std, name, scaling] = first
    for name, by_scaling in result["by_embedding"].items():
        for scaling in SCALINGS:
            columns = [first_slopes[std, name, scaling] for std in stds]
            by_scaling[scaling] = over_seeds(np.stack(columns, 1))
    return result


def report(result: Changes) -> list[Part]:
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


def draw(result: Changes, pictures: Pictures, name: str) -> None:
    """Changes by loops, and the slopes by step and by embedding std."""
    title = f"{result['what']}, mean of {result['seeds']} seeds ± standard error"
    steps, stds = list(range(1, result["steps"] + 1)), result["embedding_stds"]
    _changes(result, title, pictures, name)
    _slope_picture(result["slope"], "step", steps, title, pictures, f"{name}-by-step")
    by_embedding = f"{name}-by-embedding"
    _slope_picture(result["by_embedding"], "embedding std", stds, title, pictures, by_embedding)


def _changes(result: Changes, title: str, pictures: Pictures, name: str) -> None:
    """Step 1 with its band, the later ones as fainter lines."""
    columns, loops = {}, result["loops"]
    figure, panels = pictures.panels(2, 2, 5.0, 4.0)
    for axes, (part, place) in zip(panels, PLACES.items(), strict=True):
        for scaling in SCALINGS:
            for step in range(result["steps"]):
                curve = at_step(result["change"][part][scaling], step)
                columns[f"{part}_{scaling}_step_{step + 1}"] = csv_columns(curve)
                style = style_of(scaling)
                if step == 0:
                    band(axes, loops, band_of(curve), f"{scaling}, step 1", style)
                else:
                    axes.plot(loops, curve["mean"], linewidth=0.7, alpha=0.4, **style)
        ticks_at(axes, loops)
        axes.set_yscale("log")
        axes.set_title(place)
    outer_labels(panels, x="loops R")
    panels[0].set_ylabel("root mean square\nof the output's change")
    pictures.title(figure, f"{title}\nfaint: steps 2 to {result['steps']}")
    name_curves(figure)
    pictures.save(figure, name, "loops", loops, columns)


def _slope_picture(
    slopes_at: Mapping[str, Mapping[str, OverSeeds[list[float]]]],
    axis: str,
    x: Sequence[float],
    title: str,
    pictures: Pictures,
    name: str,
) -> None:
    """The slopes at both places over x."""
    columns = {}
    figure, panels = pictures.panels(2, 2, 5.0, 4.0, share_y=True)
    for axes, (part, place) in zip(panels, PLACES.items(), strict=True):
        for scaling, curve in slopes_at[part].items():
            columns[f"{part}_{scaling}"] = csv_columns(curve)
            band(axes, x, band_of(curve), scaling, style_of(scaling))
        axes.set_title(place)
        if axis == "step":
            whole_numbers(axes)
        else:
            ticks_at(axes, x)
    outer_labels(panels, x=axis, y="slope of log change over log R")
    pictures.title(figure, title)
    name_curves(figure)
    pictures.save(figure, name, axis.replace(" ", "_"), x, columns)
