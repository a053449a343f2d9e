"""Trained runs from loop to loop: the norm of the residual stream and the cosines between loops'
increments, up to the trained number of loops (arXiv 2606.18524, Figures 6 to 8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from looplab.evaluation import load_run
from looplab.evaluation.bootstrap import Floats, Interval, numbers
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds, padded
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.style import kind_of
from looplab.evaluation.tables import Part, Table
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on
from looplab.training.assemble import build_curriculum, trained_loops
from looplab.training.run_folder.run import Run, RunError

from .cosines import by_distance, distance_panel, matrix_panel
from .settings import StabilitySettings
from .tables import number, with_errors
from .verdict import MARGIN, collapse

PROMPTS = 64
_Z = 1.645  # standard errors in half a 90 % interval


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """Of each of the `runs`: the kind of its curves as `style`; `norm`, that of a token's state
    before the final norm from index 0, the read-in, to loop b, over prompts; `cosine` [b, b]
    between increments, None if one of the two is zero at all tokens; and `apart`, its mean over
    pairs of different ones, None if there are none. `unfinished` says what its training lacks,
    `collapsed` the reason why it collapsed: empty if it did not, None where a curriculum of the
    prompts moved its loss, or nothing was logged.

    Raises RunError if a run has no undamaged checkpoint or its states are not finite.
    """
    runs = [_run_result(load_run(path), settings.seed) for path in settings.runs]
    return {"runs": runs, "prompts": PROMPTS, "seed": settings.seed}


def _run_result(run: Run, seed: int) -> dict[str, Any]:
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
    norm = with_errors(arrays["raw"])
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


def report(result: dict[str, Any]) -> list[Part]:
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


def _mean_cosine_text(run: dict[str, Any]) -> str:
    """The mean cosine, or why there is none."""
    if run["apart"] is not None:
        return f"{run['apart']:.3f}"
    if run["loops"] == 1:
        return "–"
    moves = any(row[index] is not None for index, row in enumerate(run["cosine"]))
    return "no two move" if moves else "none moves"


def panels(result: dict[str, Any]) -> list[Panel]:
    """The norms by loop, the cosines of each model's increments, and these by the distance between
    two loops. Runs of one `label` (an experiment gives it) are seeds of one model."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for index, run in enumerate(result["runs"], start=1):
        groups.setdefault(run.get("label", f"{index}: {run['what']}"), []).append(run)
    longest = 1 + max(run["loops"] for run in result["runs"])
    norms, matrices, apart = list[Curve](), list[Panel](), list[Curve]()
    loops = [runs[0]["loops"] for runs in groups.values()]
    for label, runs in groups.items():
        kind, b = runs[0]["style"], runs[0]["loops"]
        number = b if len(set(loops)) == len(loops) > 1 else None  # else it tells no two apart
        interval = _over_prompts(runs[0]["norm"], longest)
        if len(runs) > 1:
            interval = mean_of_seeds([padded(run["norm"]["mean"], longest) for run in runs])
        norms.append(Curve.of(label, kind, interval, number=number))
        if b > 1:
            cosines = np.array([run["cosine"] for run in runs], dtype=np.float64)
            interval = mean_of_seeds(by_distance(cosines, longest - 1))
            apart.append(Curve.of(label, kind, interval, number=number))
            name, title = f"trained-cosines-{len(matrices) + 1}", f"{label}, step {runs[0]['step']}"
            matrices.append(matrix_panel(name, title, _mean(cosines)))
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {result['prompts']} prompts"
    return [
        Panel("trained-norms", title, *axes, range(longest), norms, log="y"),
        *matrices,
        *([distance_panel("trained-cosines", title, apart)] if apart else []),
    ]


def _over_prompts(norm: dict[str, Any], length: int) -> Interval:
    mean = numbers(padded(norm["mean"], length))
    half = _Z * numbers(padded(norm["standard_error"], length))
    return Interval(mean, mean - half, mean + half)
