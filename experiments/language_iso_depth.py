"""The worth of one recurrence at one effective depth, on texts, at several budgets of FLOPs
(arXiv 2604.21106)."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pandas import DataFrame

from looplab.conf.mistakes import RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.evaluation.text.measure import last_stage
from looplab.show.panel import Panel
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .iso_depth import CLUSTERS, NOTE, of_phi, panel_by_r
from .scaling_law.law import fitted
from .scaling_law.runs import row_of

PLAIN, TRUNCATED, LANES = "gradients of all loops", "gradients of half the loops", "lanes"
_STEP = 0.25  # of log10: budgets nearer than half of it are one


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Fit L = E + A (N_once + r^φ N_rec)^-α + B D^-β to the runs of each kind.

    `points` has for each run its `kind`, recurrences `r`, `width`, FLOPs as spent (`flops`) and
    their log10 rounded to its `budget`, tokens `D`, and its `loss`: nats a byte of the held-out
    text. `minima` is by budget the least loss over widths by r, of the runs with all gradients.
    `phi` is by kind, each with the runs of one loop: its value with the ends of its 90 % interval
    (None: open) and why the losses do not determine it, empty where they do; None where no law can
    be fitted.
    """
    table = DataFrame([_row(run, settings) for run in runs])
    minima: dict[str, dict[str, float]] = {}
    least = table[table.kind == PLAIN].groupby(["budget", "r"]).loss.min()
    for (budget, r), loss in least.items():
        minima.setdefault(f"{budget:g}", {})[str(r)] = loss
    phi: dict[str, dict[str, Any] | None] = {}
    for kind in _kinds(table):  # the runs of one loop are the same for all
        part = table[(table.kind == kind) | (table.r == 1)]
        try:
            law = fitted(part, {}, CLUSTERS, settings.resamples, settings.seed)
            phi[kind] = {**law.phi(), "not_determined": law.not_determined.get("phi", "")}
        except RunError:
            phi[kind] = None
    return {"points": table.to_dict("records"), "minima": minima, "phi": phi}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Losses by width, a panel for each kind and budget."""
    table = DataFrame(found["points"])
    axes = ("width", "nats a byte")
    drawn = []
    for kind in _kinds(table):
        for budget, part in table[table.kind == kind].groupby("budget"):
            name = f"iso-flop-{kind} {budget:g}".replace(" ", "-").replace(".", "_")
            title = f"{kind}, about 10^{budget:g} FLOPs"
            drawn.append(panel_by_r(part, "width", name, title, axes))
    return drawn


def _kinds(table: DataFrame) -> list[str]:
    """The kinds of a table's runs."""
    return [kind for kind in (PLAIN, TRUNCATED, LANES) if kind in set(table.kind)]


def _row(run: Run, settings: EvaluationConfig) -> dict[str, Any]:
    """The row of a run in the law's table, with what tells runs apart."""
    config, stage = run.config, last_stage(run)
    kind = PLAIN if stage.grad_loops >= stage.loops else TRUNCATED
    row = row_of(run, settings)
    return {
        **row,
        "kind": LANES if config.model.lanes else kind,
        "width": config.model.n_embd,
        "flops": row["budget"],
        "budget": round(math.log10(row["budget"]) / _STEP) * _STEP,
    }


def phi(evidence: Evidence) -> Estimate:
    """The worth of one recurrence by the law of the runs with all gradients."""
    return _phi(evidence, PLAIN)


def phi_difference(evidence: Evidence, kind: str) -> Estimate:
    """φ of a kind of runs less that of all gradients, by the outer ends of both intervals."""
    one = _phi(evidence, kind)
    other = _phi(evidence, PLAIN)
    low = one.low - other.high
    high = one.high - other.low
    return Estimate(one.mean - other.mean, low, high, 1, note=NOTE)


def _phi(evidence: Evidence, kind: str) -> Estimate:
    found = evidence.result("language_iso_depth", "phi").get(kind)
    if found is None:
        raise NotMeasured(f"the runs with {kind} determine no law")
    evidence.where(name="language")
    note = NOTE
    if found["not_determined"]:
        note = f"{NOTE}; φ is not determined: {found['not_determined']}"
    return of_phi(found)._replace(note=note)


def recurrences_over_next_smaller(evidence: Evidence) -> Estimate:
    """The least loss of r over that of the next smaller r: the smallest ratio of a budget, the
    geometric mean over budgets at which several r were trained.

    The order holds at a budget if its smallest ratio is above 1. The mean of all ratios would
    forgive a pair in the wrong order."""
    smallest = []
    for by_r in evidence.result("language_iso_depth", "minima").values():
        losses = [by_r[r] for r in sorted(by_r, key=int)]
        if len(losses) > 1:
            smallest.append(min(more / fewer for fewer, more in pairwise(losses)))
    if len(smallest) < 2:
        raise NotMeasured("fewer than two budgets with several numbers of recurrences")
    evidence.where(name="language")
    estimate = over_seeds(smallest, log=True, what="budget")
    return estimate._replace(seeds=1, note=NOTE)
