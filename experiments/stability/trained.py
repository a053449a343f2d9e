"""Trained runs from loop to loop: the norm of the residual stream and the cosines between loops'
increments, as far as each was trained to loop (arXiv 2606.18524, Figures 6 to 8)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reloop.evaluation import load_run
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.figures import (
    band,
    legend_beside,
    line,
    log_of_few_decades,
    padded,
    save,
    styled,
    whole_numbers,
)
from reloop.probing.dynamics.trajectory import Movements, follow
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run, RunError

from .cosines import heat_map
from .settings import StabilitySettings
from .tables import Floats, band_of, number, over_seeds, shown, table

PROMPTS = 64


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """For each run `norm`, that of a token's state before the final norm from index 0, the read-in,
    to loop b, over prompts; `cosine` [b, b] between increments, None where one of the two moves no
    token; and `apart`, its mean over pairs of different ones that both move some, None where there
    are none. Raises RunError where a run has no good checkpoint or its states are not finite."""
    runs = [_of_run(load_run(path), settings.seed) for path in settings.runs]
    return {"runs": runs, "prompts": PROMPTS, "seed": settings.seed}


def _of_run(run: Run, seed: int) -> dict[str, Any]:
    config, model = run.config, run.model.requires_grad_(False).double()
    b = trained_loops(config)
    prompts = evaluation_prompts(run.task, PROMPTS, config.task.points, seed)
    prompts = type(prompts)(prompts.xs.double(), prompts.ys.double())
    movements = Movements(near=b)
    last = movements.add(follow(model, prompts, b))
    if not bool(last.isfinite().all()):
        raise RunError(f"{run.path}: its states are not finite by loop {b}")
    arrays = movements.arrays()
    cosine = _mean(arrays["cosines"])
    apart = [cosine[i][j] for i in range(b) for j in range(b) if i != j]
    known = [value for value in apart if value is not None]
    norm = over_seeds(arrays["raw"])
    del norm["by_seed"]
    scaling = config.model.residual_scaling
    return {
        "run": str(run.path),
        "what": f"{config.model.connectivity or config.model.family}, b = {b}"
        + (f", {scaling}" if scaling != "none" else ""),
        "step": run.step,
        "loops": b,
        "norm": norm,
        "cosine": cosine,
        "apart": float(np.mean(known)) if known else None,
    }


def report(result: Mapping[str, Any]) -> str:
    """A line for each run."""
    rows = [
        [
            run["run"],
            run["what"],
            str(run["step"]),
            *(number(run["norm"]["mean"][at]) for at in (0, 1, -1)),
            _apart(run),
        ]
        for run in result["runs"]
    ]
    head = ["run", "model", "step", "norm of the read-in", "after loop 1", "at b", "mean cosine"]
    lines = table(head, rows)
    lines.append(
        f"norms before the final norm and cosines between different increments: means over tokens "
        f"of {result['prompts']} prompts"
    )
    return "\n".join(lines)


def _mean(cosines: Floats) -> list[list[float | None]]:
    """Of the cosines of prompts [P, b, b] the mean over those that there are, None where there is
    none."""
    known = np.isfinite(cosines)
    counts = known.sum(0)
    means = np.where(known, cosines, 0).sum(0) / np.maximum(counts, 1)
    return [
        [value if count else None for value, count in zip(values, row, strict=True)]
        for values, row in zip(means.tolist(), counts.tolist(), strict=True)
    ]


def _apart(run: Mapping[str, Any]) -> str:
    """The mean cosine, or why there is none."""
    if run["apart"] is not None:
        return f"{run['apart']:.3f}"
    if run["loops"] == 1:
        return "–"
    moves = any(row[at] is not None for at, row in enumerate(run["cosine"]))
    return "no two move" if moves else "none moves"


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """The norms of all runs in one picture, the cosines of each in one of its own."""
    runs = result["runs"]
    paths = [folder / f"{name}-norms.png"]
    paths += [folder / f"{name}-cosines-{at}.png" for at in range(1, len(runs) + 1)]
    with styled():
        _norms(runs, paths[0])
        for run, path in zip(runs, paths[1:], strict=True):
            loops = list(range(1, run["loops"] + 1))
            figure = Figure(figsize=(5.2, 4.4))
            axes = figure.subplots()
            image = heat_map(axes, run["cosine"], loops)
            figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
            axes.set_title(f"{run['what']}, step {run['step']}")
            columns = {str(loop): run["cosine"][at] for at, loop in enumerate(loops)}
            save(figure, path, "loop", loops, {"cosine": columns})
    return paths


def _norms(runs: list[dict[str, Any]], path: Path) -> None:
    longest = max(run["loops"] for run in runs)
    figure, columns = Figure(), {}
    axes = figure.subplots()
    for index, run in enumerate(runs):
        label = f"{index + 1}: {run['what']}"
        band(axes, range(run["loops"] + 1), band_of(run["norm"]), label, line(index))
        columns[label] = padded(shown(run["norm"]), longest + 1)
    log_of_few_decades(axes)
    axes.set_xlabel("loop (0: the read-in)")
    axes.set_ylabel("norm of a token's state before the norm")
    whole_numbers(axes)
    legend_beside(axes)
    save(figure, path, "loop", range(longest + 1), columns)
