"""What one recurrence is worth at one effective depth, on texts, at several budgets of FLOPs
(arXiv 2604.21106).

result = measure(runs, EvaluationConfig())    # model=recurrent, several loops, widths and budgets
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

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

from .claims import Estimate, Evidence, NotMeasured, Paper
from .statistics import over_seeds

PLAIN, TRUNCATED, LANES = "gradients of all loops", "gradients of half the loops", "lanes"
_CLUSTERS = ("r", "width")
_STEP = 0.25  # of log10: budgets nearer than half of it are one
_NOTE = "one seed: the interval is over runs alone"
_WORTH = "φ of the fitted law (0: nothing, 1: as much as layers of its own)"

_iso_depth = Paper(
    "arXiv 2604.21106", "language_iso_depth_", size="116 runs of 20 layers, 4.64e17 to 2.15e19 FLOP"
).claim


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Fit L = E + A (N_once + r^φ N_rec)^-α + B D^-β to the runs of each kind. ConfigError for runs
    of pairs of numbers, and of models without a loop.

    `points` has for each run its `kind`, recurrences `r`, `width`, budget in `flops` as spent,
    `tokens`, and its `loss`: nats a byte of the held-out text. `minima` is by budget (log10 of its
    FLOPs) the least loss over widths by r, of the runs with all gradients. `phi` is by kind, each
    with the runs of one loop: its value with the ends of its 90 % interval (None: open) and why the
    losses do not determine it, empty where they do; None where no law can be fitted.
    """
    found = [_measured(run) for run in runs]
    points = [point for point, _ in found]
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


def _measured(run: Run) -> tuple[dict[str, Any], Row]:
    """Of a run its point, and what its loss is fitted by."""
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
    point = {
        "run": run.path.name,
        "kind": LANES if config.model.lanes else kind,
        "r": b,
        "width": config.model.n_embd,
        "flops": flops,
        "tokens": tokens,
        "loss": loss,
    }
    return point, Row(run.path.name, once, rec, b, tokens, loss, ())


def _phi(
    found: Sequence[tuple[dict[str, Any], Row]], kind: str, settings: EvaluationConfig
) -> dict[str, Any] | None:
    """Of the runs of a kind, and those of one loop, which are the same for all kinds."""
    part = [each for each in found if each[0]["kind"] == kind or each[0]["r"] == 1]
    table = table_of([row for _, row in part], width=[point["width"] for point, _ in part])
    try:
        fits = fitted(table, {}, _CLUSTERS, settings.resamples, settings.seed)
    except RunError:
        return None
    return {**fits.phi(), "not_determined": fits.certainty.not_determined.get("phi", "")}


def _budget(point: Mapping[str, Any]) -> str:
    """log10 of the FLOPs, rounded, so that the runs of a budget are together."""
    return f"{round(math.log10(point['flops']) / _STEP) * _STEP:g}"


def _panels(points: Sequence[Mapping[str, Any]]) -> list[Panel]:
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


def _phi_of(evidence: Evidence, kind: str) -> Estimate:
    phi = evidence.result("language_iso_depth", "phi").get(kind)
    if phi is None:
        raise NotMeasured(f"the runs with {kind} determine no law")
    evidence.where(name="language")
    low = -math.inf if phi["low"] is None else phi["low"]
    high = math.inf if phi["high"] is None else phi["high"]
    reason = phi["not_determined"]
    note = f"{_NOTE}; φ is not determined: {reason}" if reason else _NOTE
    return Estimate(phi["value"], low, high, 1, note=note)


def _sharing(evidence: Evidence) -> Estimate:
    """Over budgets at which several r were trained. The order holds at a budget if its smallest
    ratio is above 1; the mean of all ratios would forgive a pair in the wrong order."""
    least = []
    for by_r in evidence.result("language_iso_depth", "minima").values():
        losses = [by_r[r] for r in sorted(by_r, key=int)]
        if len(losses) > 1:
            least.append(min(after / before for before, after in pairwise(losses)))
    if len(least) < 2:
        raise NotMeasured("fewer than two budgets with several numbers of recurrences")
    evidence.where(name="language")
    return over_seeds(least, log=True, what="budget")._replace(seeds=1, note=_NOTE)


def _difference(evidence: Evidence, kind: str) -> Estimate:
    """φ of a kind less that of all gradients, by the outer ends of both intervals."""
    one, other = (_phi_of(evidence, each) for each in (kind, PLAIN))
    return Estimate(
        one.mean - other.mean, one.low - other.high, one.high - other.low, 1, note=_NOTE
    )


_iso_depth(
    "sharing_costs",
    "At equal FLOPs and depth each further sharing of layers costs: r1 < r2 < r4 < r8.",
    "the empirical minima",
    "least nats a byte over widths, r over the next smaller r: the smallest ratio of a budget, "
    "geometric mean over budgets",
    1.0,
    "above",
    "1.009 (six budgets)",
)(_sharing)

_iso_depth(
    "recurrence_is_worth_something",
    "Running a block again is worth something: it counts for more parameters than it has.",
    "",
    _WORTH,
    0.0,
    "above",
    "0.459",
)(partial(_phi_of, kind=PLAIN))

_iso_depth(
    "recurrence_is_worth_less_than_layers",
    "Running a block again is worth less than layers of its own.",
    "",
    _WORTH,
    1.0,
    "below",
    "0.459",
)(partial(_phi_of, kind=PLAIN))

_iso_depth(
    "truncated_gradients_are_worth_less",
    "With gradients through half of the loops a recurrence is worth less.",
    "",
    "φ with gradients of half the loops less that with all",
    0.0,
    "below",
    "-0.08 to -0.11 (0.38 or 0.35 against 0.459)",
)(partial(_difference, kind=TRUNCATED))

_iso_depth(
    "lanes_are_worth_more",
    "With hyper-connections between the loops a recurrence is worth more.",
    "",
    "φ with two lanes less that without",
    0.0,
    "above",
    "0.19 to 0.20 (0.65 or 0.66 against 0.459)",
)(partial(_difference, kind=LANES))
