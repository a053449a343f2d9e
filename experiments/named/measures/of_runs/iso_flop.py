"""What one recurrence is worth at one effective depth, on texts, at several budgets of FLOPs
(arXiv 2604.21106).

result = measure(runs, EvaluationConfig())    # model=recurrent, several loops, widths and budgets
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.evaluation.text.measure import last_stage
from looplab.experiments.scaling_law.report import fitted
from looplab.experiments.scaling_law.runs import Row, parameter_counts, table_of
from looplab.models.flops import pass_costs
from looplab.training.run_folder.run import Run

PLAIN, TRUNCATED, LANES = "gradients of all loops", "gradients of half the loops", "lanes"
_CLUSTERS = ("r", "width")
_STEP = 0.25  # of log10: budgets nearer than half of it are one


class Point(TypedDict):
    """A run: its `kind`, recurrences, width, budget in FLOPs as spent, tokens, and its loss: nats a
    byte of the held-out text."""

    run: str
    kind: str
    r: int
    width: int
    flops: float
    tokens: int
    loss: float


class IsoFlopResult(TypedDict):
    """All runs; by budget (log10 of its FLOPs) the least loss over widths by r, of the runs with
    all gradients; φ by kind, each with the runs of one loop: its value with the ends of its 90 %
    interval (None: open) and why the losses do not determine it, empty where they do; None where no
    law can be fitted."""

    points: list[Point]
    minima: dict[str, dict[str, float]]
    phi: dict[str, dict[str, Any] | None]
    panels: list[Panel]


class _Measured(NamedTuple):
    point: Point
    row: Row


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> IsoFlopResult:
    """Fit L = E + A (N_once + r^φ N_rec)^-α + B D^-β to the runs of each kind. ConfigError for runs
    of pairs of numbers, and of models without a loop."""
    found = [_measured(run) for run in runs]
    points = [each.point for each in found]
    minima: dict[str, dict[str, float]] = {}
    for point in sorted(points, key=lambda each: (each["flops"], each["r"])):
        if point["kind"] == PLAIN:
            by_r = minima.setdefault(_budget(point), {})
            r = str(point["r"])
            by_r[r] = min(by_r.get(r, math.inf), point["loss"])
    kinds = [kind for kind in (PLAIN, TRUNCATED, LANES) if any(p["kind"] == kind for p in points)]
    return {
        "points": points,
        "minima": minima,
        "phi": {kind: _phi(found, kind, settings) for kind in kinds},
        "panels": _panels(points),
    }


def _measured(run: Run) -> _Measured:
    config = run.config
    if not run.task.is_text or config.model.family != "looped":
        raise ConfigError("task", f"must be a text, read by a looped model: {run.path} is not")
    stage, length = last_stage(run), config.task.points
    b = stage.loops
    sequences = run.step * config.training.batch_size
    tokens = sequences * length
    costs = pass_costs(run.model, length)
    flops = sequences * costs.of_step(b, stage.grad_loops, stage.window)
    _, arrays = measured(run, config.evaluation)
    loss = float(arrays["held_out"][:, b - 1].mean()) * math.log(2)
    once, rec = parameter_counts(run.model)
    kind = PLAIN if stage.grad_loops >= b else TRUNCATED
    point: Point = {
        "run": run.path.name,
        "kind": LANES if config.model.lanes else kind,
        "r": b,
        "width": config.model.n_embd,
        "flops": flops,
        "tokens": tokens,
        "loss": loss,
    }
    return _Measured(point, Row(run.path.name, once, rec, b, tokens, loss, ()))


def _phi(
    found: Sequence[_Measured], kind: str, settings: EvaluationConfig
) -> dict[str, Any] | None:
    """Of the runs of a kind, and those of one loop, which are the same for all kinds."""
    part = [each for each in found if each.point["kind"] == kind or each.point["r"] == 1]
    widths = [each.point["width"] for each in part]
    table = table_of([each.row for each in part], width=widths)
    try:
        fits = fitted(table, {}, _CLUSTERS, settings.resamples, settings.seed)
    except RunError:
        return None
    return {**fits.phi(), "not_determined": fits.certainty.not_determined.get("phi", "")}


def _budget(point: Point) -> str:
    """log10 of the FLOPs, rounded, so that the runs of a budget are together."""
    return f"{round(math.log10(point['flops']) / _STEP) * _STEP:g}"


def _panels(points: Sequence[Point]) -> list[Panel]:
    """The loss by width, a panel for each kind and budget, a curve for each r."""
    panels = []
    for kind in (PLAIN, TRUNCATED, LANES):
        of_kind = [point for point in points if point["kind"] == kind]
        for budget in sorted({_budget(point) for point in of_kind}, key=float):
            part = [point for point in of_kind if _budget(point) == budget]
            widths = sorted({point["width"] for point in part})
            curves = []
            for r in sorted({point["r"] for point in part}):
                losses = {p["width"]: p["loss"] for p in part if p["r"] == r}
                values = np.array([losses.get(width, np.nan) for width in widths])
                curves.append(Curve.of(f"r = {r}", "loops", without_interval(values), number=r))
            name = f"iso-flop-{kind.replace(' ', '-')}-{budget.replace('.', '_')}"
            title = f"{kind}, about 10^{budget} FLOPs"
            panels.append(Panel(name, title, "width", "nats a byte", widths, curves, log="x"))
    return panels
