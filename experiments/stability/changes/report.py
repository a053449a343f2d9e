"""Changes of the output by one step as tables, and as three pictures: by loops, and slopes by step
and by the embedding's standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from reloop.evaluation.figures import band, legend_beside, line, save, styled, whole_numbers

from ..first_steps import PLACES
from ..settings import SLOPES_FROM
from ..tables import SCALINGS, band_of, csv_columns, number, table, ticks_at

_LAW = (
    "The slopes 1 (none), 1/2 (sqrt) and 0 (linear) are a law of small branches, beside a large\n"
    "embedding: the tables by embedding std and by step show how far it holds."
)


def report(result: Mapping[str, Any]) -> str:
    """Norms at initialisation, the changes by step 1, and the slopes."""
    loops, ratio = result["loops"], f"{result['loops'][-1]} / {result['loops'][0]}"
    lines = [
        f"a looped transformer, {result['what']}, {result['seeds']} seeds, ± standard error",
        "",
        "root mean square of the stream before the final norm at initialisation",
        *_by_loops(result["norm"], loops, ratio, lambda means: f"{means[-1] / means[0]:.3g}"),
    ]
    indices = [index for index, r in enumerate(loops) if r >= SLOPES_FROM]
    loop_range = f"R = {loops[indices[0]]}…{loops[indices[-1]]}"
    for name, place in PLACES.items():
        step_1 = {s: _at(curve, 0) for s, curve in result["change"][name].items()}
        lines += [
            "",
            f"change by step 1 {place}, root mean square; most / least over {loop_range}",
            *_by_loops(step_1, loops, "spread", lambda means: _spread([means[i] for i in indices])),
        ]
    for name, place in PLACES.items():
        steps = range(1, result["steps"] + 1)
        stds = [f"{std:g}" for std in result["embedding_stds"]]
        lines += [
            "",
            f"slope of log change over log R, {loop_range}, {place}",
            *table(["step", *map(str, steps)], _slopes(result["slope"][name])),
            *table(["step 1, embedding std", *stds], _slopes(result["by_embedding"][name])),
        ]
    return "\n".join([*lines, "", _LAW])


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Changes by loops, and the slopes by step and by embedding std."""
    with styled():
        return [
            _changes(result, folder / f"{name}.png"),
            _slope_picture(
                result, folder / f"{name}-by-step.png", "slope", "step",
                list(range(1, result["steps"] + 1)),
            ),
            _slope_picture(
                result, folder / f"{name}-by-embedding.png", "by_embedding", "embedding std",
                result["embedding_stds"],
            ),
        ]  # fmt: skip


def _changes(result: Mapping[str, Any], path: Path) -> Path:
    """Step 1 with its band, the later ones as fainter lines."""
    figure, columns, loops = Figure(figsize=(10.0, 4.0)), {}, result["loops"]
    panels = figure.subplots(1, 2)
    for axes, (name, place) in zip(panels, PLACES.items(), strict=True):
        for index, scaling in enumerate(SCALINGS):
            for step in range(result["steps"]):
                curve = _at(result["change"][name][scaling], step)
                columns[f"{name}_{scaling}_step_{step + 1}"] = csv_columns(curve)
                if step == 0:
                    band(axes, loops, band_of(curve), f"{scaling}, step 1", line(index))
                else:
                    axes.plot(loops, curve["mean"], linewidth=0.7, alpha=0.4, **line(index))
        ticks_at(axes, loops)
        axes.set_xlabel("loops R")
        axes.set_yscale("log")
        axes.set_title(place, fontsize=10)
    panels[0].set_ylabel("root mean square of the output's change")
    legend_beside(panels[1])
    figure.suptitle(f"{_title(result)}\nfaint: steps 2 to {result['steps']}")
    save(figure, path, "loops", loops, columns)
    return path


def _slope_picture(
    result: Mapping[str, Any], path: Path, part: str, axis: str, x: Sequence[float]
) -> Path:
    """The slopes at both places over x."""
    figure, columns = Figure(figsize=(10.0, 4.0)), {}
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, place) in zip(panels, PLACES.items(), strict=True):
        for index, scaling in enumerate(SCALINGS):
            curve = result[part][name][scaling]
            columns[f"{name}_{scaling}"] = csv_columns(curve)
            band(axes, x, band_of(curve), scaling, line(index))
        axes.set_title(place, fontsize=10)
        axes.set_xlabel(axis)
        if part == "slope":
            whole_numbers(axes)
        else:
            ticks_at(axes, x)
    panels[0].set_ylabel("slope of log change over log R")
    legend_beside(panels[1])
    figure.suptitle(_title(result))
    save(figure, path, axis.replace(" ", "_"), x, columns)
    return path


def _title(result: Mapping[str, Any]) -> str:
    return f"{result['what']}, mean of {result['seeds']} seeds ± standard error"


def _by_loops(
    curves: Mapping[str, Any],
    loops: Sequence[int],
    last_header: str,
    summarise: Callable[[list[float]], str],
) -> list[str]:
    """A table of curves over loops, with a last column that summarises their means."""
    rows = []
    for scaling, curve in curves.items():
        rows.append([scaling, *map(number, curve["mean"]), summarise(curve["mean"])])
        rows.append(["", *(f"±{value:.2g}" for value in curve["standard_error"]), ""])
    return table(["R", *map(str, loops), last_header], rows)


def _slopes(curves: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for scaling, curve in curves.items():
        rows.append([scaling, *(f"{value:.2f}" for value in curve["mean"])])
        rows.append(["", *(f"±{value:.2g}" for value in curve["standard_error"])])
    return rows


def _at(curve: Mapping[str, Any], step: int) -> dict[str, list[float]]:
    """A curve over loops and steps at one step."""
    return {part: [values[step] for values in curve[part]] for part in ("mean", "standard_error")}


def _spread(means: list[float]) -> str:
    return f"{max(means) / min(means):.3g}"
