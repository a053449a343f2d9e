"""Trained runs from loop to loop: the norm of the residual stream and the cosines between loops'
increments, up to the trained number of loops (arXiv 2606.18524, Figures 6 to 8)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

import numpy as np

from looplab.evaluation import load_run
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.figures import (
    Pictures,
    band,
    heat_map,
    name_curves,
    padded,
    whole_numbers,
)
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.style import kind_of, styles_of
from looplab.evaluation.tables import Part, Table
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on
from looplab.training.assemble import build_curriculum, trained_loops
from looplab.training.run_folder.run import Run, RunError

from .settings import StabilitySettings
from .tables import Floats, Means, band_of, csv_columns, number, over_seeds
from .verdict import MARGIN, collapse

PROMPTS = 64


class TrainedRun(TypedDict):
    """A run: the kind of its curves as `style`; `norm`, that of a token's state before the final
    norm from index 0, the read-in, to loop b, over prompts; `cosine` [b, b] between increments,
    None if one of the two is zero at all tokens; and `apart`, its mean over pairs of different
    ones, None if there are none. `unfinished` says what its training lacks, `collapsed` the reason
    why it collapsed: empty if it did not, None where a curriculum of the prompts moved its loss, or
    nothing was logged."""

    run: str
    style: str
    what: str
    step: int
    unfinished: list[str]
    scaling: str
    loops: int
    norm: Means[list[float]]
    cosine: list[list[float | None]]
    apart: float | None
    collapsed: NotRequired[str | None]


class Trained(TypedDict):
    """The runs, and the prompts that they are measured on."""

    runs: list[TrainedRun]
    prompts: int
    seed: int


def measure(settings: StabilitySettings) -> Trained:
    """The norms and cosines of each run. Raises RunError if a run has no undamaged checkpoint or
    its states are not finite."""
    runs = [_run_result(load_run(path), settings.seed) for path in settings.runs]
    return {"runs": runs, "prompts": PROMPTS, "seed": settings.seed}


def _run_result(run: Run, seed: int) -> TrainedRun:
    config, model = run.config, run.model.requires_grad_(False).double()
    b = trained_loops(config)
    prompts = evaluation_prompts(run.task, PROMPTS, config.task.points, seed)
    movements = Movements(window=b)
    last = movements.add(follow(model, prompts_on(model, prompts), b))
    if not bool(last.isfinite().all()):
        raise RunError(f"{run.path}: its states are not finite by loop {b}")
    arrays = movements.arrays()
    cosine = _mean(arrays["cosines"])
    off_diagonal = [cosine[i][j] for i in range(b) for j in range(b) if i != j]
    values = [value for value in off_diagonal if value is not None]
    norm = over_seeds(arrays["raw"])
    scaling = config.model.residual_scaling
    return {
        "run": str(run.path),
        "style": kind_of(config.model),
        "what": f"{config.model.connectivity or config.model.family}, b = {b}"
        + (f", {scaling}" if scaling != "none" else ""),
        "step": run.step,
        "unfinished": unfinished(config, run.task, run.step),
        "scaling": scaling,
        "loops": b,
        "norm": {"mean": norm["mean"], "standard_error": norm["standard_error"]},
        "cosine": cosine,
        "apart": float(np.mean(values)) if values else None,
        "collapsed": _collapsed(run),
    }


def _collapsed(run: Run) -> str | None:
    curriculum = build_curriculum(run.config, run.task)
    first, last = curriculum(0), curriculum(max(run.step - 1, 0))
    losses = [record["loss"] for record in logged(run)]
    if not losses or (first.dims, first.points) != (last.dims, last.points):
        return None
    return collapse(losses)


def report(result: Trained) -> list[Part]:
    """A line for each run."""
    rows = [
        [
            run["run"],
            run["what"],
            str(run["step"]),
            *(number(run["norm"]["mean"][loop]) for loop in (0, 1, -1)),
            _mean_cosine_text(run),
            "–" if (reason := run.get("collapsed")) is None else reason or "no",
        ]
        for run in result["runs"]
    ]
    head = ["run", "model", "step", "norm of the read-in", "after loop 1", "at b", "mean cosine"]
    head += ["collapsed in training"]
    note = (
        f"norms before the final norm and cosines between different increments: means over tokens "
        f"of {result['prompts']} prompts; collapsed: the loss is not finite or, smoothed, ends "
        f"{MARGIN:g} above its best"
    )
    return [Table(head, rows), note]


def _mean(cosines: Floats) -> list[list[float | None]]:
    """The mean of cosines [P, b, b] over the prompts that have one, None if there is none."""
    valid = np.isfinite(cosines)
    counts = valid.sum(0)
    means = np.where(valid, cosines, 0).sum(0) / np.maximum(counts, 1)
    return [
        [value if count else None for value, count in zip(values, row_counts, strict=True)]
        for values, row_counts in zip(means.tolist(), counts.tolist(), strict=True)
    ]


def _mean_cosine_text(run: TrainedRun) -> str:
    """The mean cosine, or why there is none."""
    if run["apart"] is not None:
        return f"{run['apart']:.3f}"
    if run["loops"] == 1:
        return "–"
    moves = any(row[index] is not None for index, row in enumerate(run["cosine"]))
    return "no two move" if moves else "none moves"


def draw(result: Trained, pictures: Pictures, name: str) -> None:
    """The norms of all runs in one picture, the cosines in one for each run."""
    _norms(result["runs"], pictures, f"{name}-norms")
    for index, run in enumerate(result["runs"], start=1):
        loops = list(range(1, run["loops"] + 1))
        figure = pictures.figure(5.2, 4.4)
        axes = figure.subplots()
        image = heat_map(axes, run["cosine"], loops)
        axes.set_xlabel("increment of loop")
        axes.set_ylabel("increment of loop")
        figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
        pictures.title(figure, f"{run['what']}, step {run['step']}")
        columns = dict(zip(map(str, loops), run["cosine"], strict=True))
        pictures.save(figure, f"{name}-cosines-{index}", "loop", loops, {"cosine": columns})


def _norms(runs: list[TrainedRun], pictures: Pictures, name: str) -> None:
    longest = max(run["loops"] for run in runs)
    figure, columns = pictures.figure(), {}
    axes = figure.subplots()
    styles = styles_of([run["style"] for run in runs])
    for index, (run, style) in enumerate(zip(runs, styles, strict=True), start=1):
        label = f"{index}: {run['what']}"
        band(axes, range(run["loops"] + 1), band_of(run["norm"]), label, style)
        columns[label] = padded(csv_columns(run["norm"]), longest + 1)
    axes.set_yscale("log")
    axes.set_xlabel("loop (0: the read-in)")
    axes.set_ylabel("norm of a token's state before the norm")
    whole_numbers(axes)
    name_curves(figure)
    pictures.save(figure, name, "loop", range(longest + 1), columns)
