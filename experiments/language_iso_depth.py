"""The worth of one recurrence at one effective depth, on texts, at several budgets of FLOPs
(arXiv 2604.21106)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pandas import DataFrame

from looplab.conf.mistakes import RunError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, NotMeasured, over_seeds
from looplab.show.panel import Panel
from looplab.training.assemble import last_stage
from looplab.training.run_folder.run import Run

from .evidence import Evidence, lowest
from .iso_depth import CLUSTERS, of_phi, panel_by_r, seeds_of, with_seeds
from .scaling_law.law import fitted
from .scaling_law.minima import minima, rounded_budget
from .scaling_law.runs import row_of

PLAIN, TRUNCATED, LANES = "gradients of all loops", "gradients of half the loops", "lanes"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Fit L = E + A (N_once + r^φ N_rec)^-α + B D^-β to the runs of each kind.

    `points` has for each run its `kind`, recurrences `r`, `width`, FLOPs as spent (`flops`) and
    their log10 rounded to its `budget`, tokens `D`, and its `loss`: nats a byte of the held-out
    text. `minima` is by budget the least loss over widths by r, of the runs with all gradients;
    `vertices` is that of parabolas in log N, where they have one within the sizes of the runs.
    `phi` is by kind, each with the runs of one loop: its value with the ends of its 90 % interval
    (None: open) and why the losses do not determine it, empty where they do; None where no law can
    be fitted.
    """
    table = DataFrame([_row(run, settings) for run in runs])
    plain = table[table.kind == PLAIN]
    cells = minima(plain.assign(budget=plain.flops))
    phi: dict[str, dict[str, Any] | None] = {}
    for kind in _kinds(table):  # the runs of one loop are the same for all
        part = table[(table.kind == kind) | (table.r == 1)]
        try:
            law = fitted(part, {}, CLUSTERS, settings.resamples, settings.seed)
            phi[kind] = {**law.phi(), "not_determined": law.not_determined.get("phi", "")}
        except RunError:
            phi[kind] = None
    return {
        "points": table.to_dict("records"),
        "minima": _by_budget(cells, "measured"),
        "vertices": _by_budget(cells.dropna(), "loss"),
        "phi": phi,
    }


def _by_budget(cells: DataFrame, column: str) -> dict[str, dict[str, float]]:
    """A column of the minima by budget and r."""
    by_budget = cells.assign(r=cells.r.map(str)).set_index("r").groupby("budget")[column]
    return {f"{budget:g}": losses.to_dict() for budget, losses in by_budget}


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
    config, stage = run.config, last_stage(run.config, run.task)
    kind = PLAIN if stage.grad_loops >= stage.loops else TRUNCATED
    row = row_of(run, settings)
    return {
        **row,
        "kind": LANES if config.model.lanes else kind,
        "width": config.model.n_embd,
        "flops": row["budget"],
        "budget": rounded_budget(row["budget"]),
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
    return with_seeds(Estimate(one.mean - other.mean, low, high, one.seeds), one.seeds)


def _phi(evidence: Evidence, kind: str) -> Estimate:
    found = evidence.result("language_iso_depth", "phi").get(kind)
    if found is None:
        raise NotMeasured(f"the runs with {kind} determine no law")
    evidence.where(name="language")
    estimate = of_phi(found, _seeds(evidence, kind, PLAIN))
    if found["not_determined"]:
        reason = f"φ is not determined: {found['not_determined']}"
        estimate = estimate._replace(note="; ".join(filter(None, (estimate.note, reason))))
    return estimate


def _seeds(evidence: Evidence, *kinds: str) -> int:
    """The number of seeds of the runs of these kinds."""
    points = DataFrame(evidence.result("language_iso_depth", "points"))
    return seeds_of(points[points.kind.isin(kinds)], ["kind", "budget", "r", "width"])


def loss_over_plain(evidence: Evidence, kind: str) -> Estimate:
    """The least loss of a kind of runs over that of all gradients, over the widths that both have:
    the geometric mean over the budgets and numbers of recurrences."""
    table = DataFrame(evidence.result("language_iso_depth", "points"))
    by_kind = table.pivot_table(index=["budget", "r", "width"], columns="kind", values="loss")
    if not {kind, PLAIN} <= {*by_kind.columns}:
        raise NotMeasured(f"no runs with {kind}, or none with {PLAIN}")
    evidence.where(name="language")
    least = by_kind[[kind, PLAIN]].dropna().groupby(["budget", "r"]).min()
    ratios = least[kind] / least[PLAIN]
    return with_seeds(
        over_seeds(ratios, log=True, what="budget and r"), _seeds(evidence, kind, PLAIN)
    )


def phi_tells_apart(evidence: Evidence) -> Estimate:
    """The lesser of what lanes raise φ and of what gradients of half the loops lower it.

    NotMeasured where one of them does not lower the loss."""
    if max(loss_over_plain(evidence, kind).mean for kind in (TRUNCATED, LANES)) >= 1:
        raise NotMeasured("one of both changes does not lower the loss")
    fall = phi_difference(evidence, TRUNCATED)
    lowered = fall._replace(mean=-fall.mean, low=-fall.high, high=-fall.low)
    return lowest([phi_difference(evidence, LANES), lowered])


def recurrences_over_next_smaller(evidence: Evidence, of: str = "minima") -> Estimate:
    """The least loss of r over that of the next smaller r, of the `minima` measured or of the
    `vertices` of parabolas: see `over_next_smaller`."""
    evidence.where(name="language")
    budgets = evidence.result("language_iso_depth", of).values()
    return with_seeds(over_next_smaller(budgets), _seeds(evidence, PLAIN))


def over_next_smaller(budgets: Iterable[Mapping[str, float]]) -> Estimate:
    """The smallest ratio of a budget's losses by r, of one over that of the next smaller r: the
    geometric mean over the budgets that have every r.

    The order holds at a budget if its smallest ratio is above 1. The mean of all ratios would
    forgive a pair in the wrong order."""
    rows = list(budgets)
    every = sorted(set[str]().union(*rows), key=float)
    smallest = []
    for by_r in rows:
        # Without one of them the next smaller r would be another one.
        if len(every) > 1 and len(by_r) == len(every):
            losses = [by_r[r] for r in every]
            smallest.append(min(more / fewer for fewer, more in pairwise(losses)))
    if len(smallest) < 2:
        raise NotMeasured("fewer than two budgets with every number of recurrences")
    return over_seeds(smallest, log=True, what="budget")
