"""The residual stream of trained runs from loop to loop (arXiv 2606.18524, Figures 6 to 8).

result = trained([load_run("runs/A"), load_run("runs/B")])
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.evaluation.bootstrap import Floats, Interval, numbers
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds, padded
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.style import kind_of
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on
from looplab.training.assemble import build_curriculum, trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, Paper
from .fully_looped import collapse, finite
from .measuring import grouped
from .near_init import by_distance, distance_panel, matrix_panel
from .statistics import over_seeds

PROMPTS = 64
_Z = 1.645  # standard errors in half a 90 % interval


def trained(runs: Sequence[Run]) -> dict[str, Any]:
    """Follow trained runs up to their number of loops, on 64 prompts.

    `runs`, of each: `norm`, the mean of a token's state before the final norm over prompts, and its
    `standard_error`, from index 0, the read-in, to loop b; `cosine` [b, b] between increments, None
    if one of the two is zero at all tokens; and `apart`, its mean over pairs of different ones,
    None if there are none. `unfinished` says what its training lacks, `collapsed` the reason why it
    collapsed: empty if it did not, None where a curriculum of the prompts moved its loss, or
    nothing was logged. `panels`, whose curves are of the seeds of one model: the norms by loop, the
    cosines of each model's increments, and these by the distance between two loops. RunError if
    states are not finite.
    """
    found = {str(run.path): _followed(run) for run in runs}
    longest = 1 + max(run["loops"] for run in found.values())
    groups = grouped(runs)
    norms, matrices, apart = list[Curve](), list[Panel](), list[Curve]()
    for group in groups:
        of, kind = [found[str(run.path)] for run in group.runs], kind_of(group.config.model)
        b = len({each.b for each in groups}) == len(groups) > 1  # else it tells no two apart
        number = group.b if b else None
        interval = mean_of_seeds([padded(run["norm"]["mean"], longest) for run in of])
        if len(of) == 1:  # over prompts
            half = _Z * numbers(padded(of[0]["norm"]["standard_error"], longest))
            interval = Interval(interval.mean, interval.mean - half, interval.mean + half)
        norms.append(Curve.of(group.label, kind, interval, number=number))
        if group.b > 1:
            cosines = np.array([run["cosine"] for run in of], dtype=np.float64)
            interval = mean_of_seeds(by_distance(cosines, longest - 1))
            apart.append(Curve.of(group.label, kind, interval, number=number))
            title = f"{group.label}, step {of[0]['step']}"
            name = f"trained-cosines-{len(matrices) + 1}"
            matrices.append(matrix_panel(name, title, _mean(cosines)))
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {PROMPTS} prompts"
    panels = [
        Panel("trained-norms", title, *axes, range(longest), norms, log="y"),
        *matrices,
        *([distance_panel("trained-cosines", title, apart)] if apart else []),
    ]
    return {"runs": [*found.values()], "prompts": PROMPTS, "panels": panels}


def _followed(run: Run) -> dict[str, Any]:
    config, model = run.config, deepcopy(run.model).requires_grad_(False).double()
    b, prompts = trained_loops(config), evaluation_prompts(run.task, PROMPTS, config.task.points, 0)
    movements = Movements(window=b)
    last = movements.add(follow(model, prompts_on(model, prompts), b))
    if not bool(last.isfinite().all()):
        raise RunError(f"{run.path}: its states are not finite by loop {b}")
    arrays = movements.arrays()
    raw, cosine = arrays["raw"], _mean(arrays["cosines"])
    pairs = (cosine[i][j] for i in range(b) for j in range(b) if i != j)
    values = [value for value in pairs if value is not None]
    curriculum, losses = build_curriculum(config, run.task), [each["loss"] for each in logged(run)]
    first, end = curriculum(0), curriculum(max(run.step - 1, 0))
    moved = (first.dims, first.points) != (end.dims, end.points)
    return {
        "run": str(run.path),
        "what": f"{config.model.connectivity or config.model.family}, b = {b}",
        "step": run.step,
        "unfinished": unfinished(config, run.task, run.step),
        "scaling": config.model.residual_scaling,
        "loops": b,
        "norm": {
            "mean": raw.mean(0).tolist(),
            "standard_error": (raw.std(0, ddof=1) / np.sqrt(len(raw))).tolist(),
        },
        "cosine": cosine,
        "apart": float(np.mean(values)) if values else None,
        "collapsed": None if moved or not losses else collapse(losses),
    }


def _mean(cosines: Floats) -> list[list[float | None]]:
    """The mean of cosines [P, b, b] over the prompts that have one, None if there is none."""
    valid = np.isfinite(cosines)
    with np.errstate(invalid="ignore"):
        means = np.where(valid, cosines, 0).sum(0) / valid.sum(0)
    return [[*map(finite, row)] for row in means]


def _trained(evidence: Evidence) -> list[Any]:
    """The finished runs with 1/R or its factored form, by loops."""
    runs = evidence.result("residual_scaling")["runs"]
    for run in runs:
        if run["unfinished"] or not run["step"]:
            raise NotMeasured(f"{run['what']}: {'; '.join(run['unfinished']) or 'untrained'}")
    found = [run for run in runs if run["scaling"] in ("linear", "factored")]
    return sorted(found, key=lambda run: run["loops"])


def _over_runs(estimate: Estimate, runs: list[Any]) -> Estimate:
    loops = ", ".join(str(run["loops"]) for run in runs)
    steps = min(run["step"] for run in runs)
    return estimate._replace(seeds=1, steps=steps, size=f"R = {loops}", note="one seed")


def _increments_agree(evidence: Evidence) -> Estimate:
    """Over the runs, which differ in their loops."""
    runs = [run for run in _trained(evidence) if run["apart"] is not None]
    estimate = over_seeds([run["apart"] for run in runs], what="run of several loops")
    return _over_runs(estimate, runs)


def _norm_ratio(evidence: Evidence) -> Estimate:
    """Of runs that differ in their loops, with the standard errors over prompts."""
    runs = _trained(evidence)
    if len({run["loops"] for run in runs}) < 2:
        raise NotMeasured("no two trained runs that differ in their loops")
    ends = sorted(runs, key=lambda run: run["norm"]["mean"][-1])
    small, large = ends[0]["norm"], ends[-1]["norm"]
    ratio = large["mean"][-1] / small["mean"][-1]
    parts = [each["standard_error"][-1] / each["mean"][-1] for each in (small, large)]
    return _over_runs(over_seeds([ratio], [ratio * float(np.hypot(*parts))], log=True), runs)


_of_paper = Paper("arXiv 2606.18524", "scaling_", steps=20_000, size="U = 12, d = 768").claim
_of_paper(
    "fig6_trained_increments_agree",
    "After training, too, the increments of a loop agree in direction.",
    "Figures 6 and 8",
    "mean cosine of two different increments, over trained runs",
    above=0.1,
    published="mostly positive, 0.3 to 0.6",
)(_increments_agree)
_of_paper(
    "fig7_norm_does_not_depend_on_loops",
    "With 1/R trained models end with streams of one size however many loops they have.",
    "Figure 7",
    "largest over smallest norm of the stream after the last loop, over trained runs",
    below=1.5,  # 1/√R would give 2 from R = 2 to 8
    published="similar",
)(_norm_ratio)
