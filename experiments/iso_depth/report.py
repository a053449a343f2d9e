"""What the iso-depth experiment found, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..plateau import LEAVES, highest
from ..scaling_law.table import ScalingTable

_WELL = 0.9  # R² from which on the law is said to describe the losses
_SELECTED = (
    "leaving out by loss selects on the outcome: the worst of the short trainings are missing, "
    "which flattens the fit in D (beta tends to come out low) and leaves phi less certain"
)


def verdict(
    fits: Mapping[str, Any],
    off: ScalingTable,
    on: ScalingTable,
    bayes: float,
    zero: float,
    expected: float,
) -> str:
    """What phi is and how well it is determined, how many runs took part and how that bears on the
    fit, and what E is. `fits` is what `fitted` made of those that are `off` the plateau."""
    free, found = fits["fits"]["free"], fits["intervals"]
    phi, most = free["law"]["phi"], off.r.max()
    low, high = (_end(found, end, edge) for end, edge in (("low", -np.inf), ("high", np.inf)))
    unknown = fits["not_determined"]
    meaning = "it is not determined" if "phi" in free["at_edge"] else _meaning(low, high)
    if "phi" in unknown and "not determined" not in meaning:
        meaning = f"its value is not determined, but {meaning}"
    if "not determined" not in meaning:
        meaning += f"; a shared parameter run {most:g} times counts as {most**phi:.2f}"
    lines = [f"phi = {phi:.2f}, 90 % interval {_shown(low)} to {_shown(high)}: {meaning}"]
    if others := [name for name in unknown if name != "phi"]:
        lines.append(f"of the law's other parameters, not determined: {', '.join(others)}")
    lines += [
        "all runs were trained on the same prompts (one seed): the interval does not cover what "
        "another set of them would change",
    ]
    if free["r2"] < _WELL:
        lines.append(f"the law describes these losses badly: R² is {free['r2']:.2f}")
    lines.append(
        f"{len(off)} of {len(off) + len(on)} runs left the plateau (loss at most "
        f"{highest(bayes, zero):.4f}: E + {LEAVES:g} (Z - E)) and are fitted; "
        f"{len(on)} did not and are left out" + _by_r(off, on)
    )
    if len(on):
        lines.append(_SELECTED)
    lines += [
        f"E = {bayes:.4f}, the Bayes error on the evaluation's prompts ({expected:.4f} expected); "
        f"Z = {zero:.4f}, predicting 0",
    ]
    return "\n".join(lines)


def _end(found: Mapping[str, Any], end: str, edge: float) -> float:
    """An end of phi's interval; `edge`, where it is where the search ends."""
    return edge if "phi" in found[f"{end}_at_edge"] else found[end]["phi"]


def _shown(end: float) -> str:
    return f"{end:.2f}" if np.isfinite(end) else "the search's edge"


def _by_r(off: ScalingTable, on: ScalingTable) -> str:
    """How many were left out, by r."""
    if not len(on):
        return ""
    counts = ((r, np.sum(on.r == r)) for r in np.union1d(off.r, on.r))
    return ": " + ", ".join(f"{count} of r = {r:g}" for r, count in counts)


def _meaning(low: float, high: float) -> str:
    """What an interval of phi says of a recurrence."""
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


def grid_table(off: ScalingTable, on: ScalingTable) -> str:
    """The losses, a line for each r and width and a column for each number of steps; in brackets
    those on the plateau, a dash for a run that failed."""
    losses: dict[tuple[int, int, int], str] = {}
    for table, form in ((off, "{:.4f}"), (on, "({:.4f})")):
        axes = zip(table.r, table.labels["width"], table.labels["steps"], table.loss, strict=True)
        for r, width, steps, loss in axes:
            losses[int(r), int(width), int(steps)] = form.format(loss)
    columns = sorted({key[2] for key in losses})
    lines = ["loss by steps".ljust(16) + "".join(f"{each:>10}" for each in columns)]
    for model in sorted({key[:2] for key in losses}):
        cells = (losses.get((*model, each), "-").rjust(10) for each in columns)
        lines.append("r = {}, {} wide".format(*model).ljust(16) + "".join(cells))
    return "\n".join(lines)
