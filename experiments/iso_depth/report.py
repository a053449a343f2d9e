"""The results of the iso-depth experiment as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reloop.evaluation.tables import Table

from ..plateau import LEAVES, highest
from ..scaling_law.certainty import Certainty
from ..scaling_law.fit import Fit
from ..scaling_law.table import ScalingTable

_WELL = 0.9  # the least R² at which the law describes the losses
_SELECTED = (
    "leaving out by loss selects on the outcome: the worst of the short trainings are missing, "
    "which flattens the fit in D (beta tends to come out low) and leaves phi less certain"
)


@dataclass(frozen=True)
class Measurements:
    """The runs that left the plateau and those that did not, the remarks on all of them, and the
    mean errors of the best predictor and of predicting 0 on the prompts of the evaluation."""

    off_plateau: ScalingTable
    on_plateau: ScalingTable
    remarks: tuple[str, ...]
    bayes: float
    zero: float


def verdict(free: Fit, known: Certainty, runs: Measurements, expected: float) -> str:
    """phi and how well it is determined, the number of runs in the fit and what that means for it,
    and E, of which `expected` is the expectation. `free` is the fit to the runs off the plateau,
    `known` its certainty."""
    phi, largest_r, undetermined = free.law.phi, runs.off_plateau.r.max(), known.not_determined
    low = -np.inf if "phi" in known.low_at_edge else known.low["phi"]
    high = np.inf if "phi" in known.high_at_edge else known.high["phi"]
    meaning = "it is not determined" if "phi" in free.at_edge else _meaning(low, high)
    if "phi" in undetermined and "not determined" not in meaning:
        meaning = f"its value is not determined, but {meaning}"
    if "not determined" not in meaning:
        meaning += f"; a shared parameter run {largest_r:g} times counts as {largest_r**phi:.2f}"
    lines = [f"phi = {phi:.2f}, 90 % interval {_end_text(low)} to {_end_text(high)}: {meaning}"]
    if names := [name for name in undetermined if name != "phi"]:
        lines.append(f"of the law's other parameters, not determined: {', '.join(names)}")
    lines.append(
        "all runs were trained on the same prompts (one seed): the interval does not cover what "
        "another set of them would change"
    )
    if free.r2 < _WELL:
        lines.append(f"the law describes these losses badly: R² is {free.r2:.2f}")
    fitted, left_out = len(runs.off_plateau), len(runs.on_plateau)
    lines.append(
        f"{fitted} of {fitted + left_out} runs left the plateau (loss at most "
        f"{highest(runs.bayes, runs.zero):.4f}: E + {LEAVES:g} (Z - E)) and are fitted; "
        f"{left_out} did not and are left out" + _by_r(runs.off_plateau, runs.on_plateau)
    )
    if left_out:
        lines.append(_SELECTED)
    lines.append(
        f"E = {runs.bayes:.4f}, the Bayes error on the evaluation's prompts ({expected:.4f} "
        f"expected); Z = {runs.zero:.4f}, predicting 0"
    )
    return "\n".join(lines)


def _end_text(end: float) -> str:
    return f"{end:.2f}" if np.isfinite(end) else "the search's edge"


def _by_r(off_plateau: ScalingTable, on_plateau: ScalingTable) -> str:
    """The number of runs left out, by r."""
    if not len(on_plateau):
        return ""
    counts = ((r, np.sum(on_plateau.r == r)) for r in np.union1d(off_plateau.r, on_plateau.r))
    return ": " + ", ".join(f"{count} of r = {r:g}" for r, count in counts)


def _meaning(low: float, high: float) -> str:
    """The meaning of an interval of phi for a recurrence."""
    if low <= 0 and high >= 1:
        return "it is not determined, both 0 (nothing) and 1 (as much as layers of its own) may be"
    if low > 1:
        return "a recurrence is worth more than layers of its own"
    if high < 0:
        return "recurrences are worse than none"
    if high >= 1:
        return "a recurrence is worth something, possibly as much as layers of its own"
    if low <= 0:
        return "a recurrence is worth less than layers of its own, possibly nothing"
    return "a recurrence is worth something, and less than layers of its own"


def grid_table(off_plateau: ScalingTable, on_plateau: ScalingTable) -> Table:
    """The losses, a line for each r and width and a column for each number of steps; those on the
    plateau in brackets, a dash for a run that failed."""
    losses: dict[tuple[int, int, int], str] = {}
    for table, form in ((off_plateau, "{:.4f}"), (on_plateau, "({:.4f})")):
        axes = zip(table.r, table.labels["width"], table.labels["steps"], table.loss, strict=True)
        for r, width, steps, loss in axes:
            losses[int(r), int(width), int(steps)] = form.format(loss)
    columns = sorted({key[2] for key in losses})
    rows = [
        [
            "r = {}, {} wide".format(*model),
            *(losses.get((*model, column), "-") for column in columns),
        ]
        for model in sorted({key[:2] for key in losses})
    ]
    return Table(["loss by steps", *map(str, columns)], rows)
