"""The law of what one recurrence is worth, fitted to a table of losses.

fit = fit_law(table)                              # fit.law.phi, fit.law.loss(table)
fit_law(table, held={"phi": 1.0, "E": 0.25})      # the others, with these two held
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from reloop.conf.mistakes import RunError

from .problem import DELTA, NAMES, Law, Problem
from .search import RANGES, polished, ranges_of, search
from .table import Flags, Floats, ScalingTable

_NONE_HELD: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Fit:
    """A fitted law: `huber`, the weighted mean Huber loss of log L's residuals; `r2`, the share of
    the variance of L it explains; `held`, the parameters that were given; `at_edge`, exponents
    that ended where their range does, which the table then does not determine."""

    law: Law
    huber: float
    r2: float
    held: tuple[str, ...]
    at_edge: tuple[str, ...]


def fit_law(
    table: ScalingTable,
    held: Mapping[str, float] = _NONE_HELD,
    weights: Floats | None = None,
    start: Law | None = None,
) -> Fit:
    """The law with the least Huber loss on log L over the rows, each counted `weights` times.

    `held` fixes some of E, alpha, beta and phi; E may be 0. The search goes by L-BFGS-B from the
    best of a grid of starts, or from `start` alone. Raises RunError for a table that cannot
    determine the free parameters, and for an E that is not below every loss, which no law has.
    """
    weights = np.ones(len(table)) if weights is None else weights
    if len(table) and held.get("E", 0) >= table.loss.min():
        row = int(table.loss.argmin())
        raise RunError(
            f"E must be below every loss, got {held['E']:g} beside {table.loss[row]:g} in row "
            f"{row + 1}"
        )
    reason = undetermined(table, held, weights > 0)
    if reason:
        raise RunError(f"the table {reason}")
    problem = Problem.of(table, weights)
    if start is None:
        _, theta = search(problem, held)[0]
    else:
        begin = problem.theta(replace(start, **held))
        _, theta = polished(problem, begin, held, ranges_of(problem))
    law = problem.law(theta)
    at_edge = edges({name: getattr(law, name) for name in RANGES if name not in held})
    huber = float(problem.value(theta)[0]) * DELTA**2 / weights.sum()
    return Fit(law, huber, _explained(table, law, weights), tuple(held), at_edge)


def undetermined(table: ScalingTable, held: Mapping[str, float], there: Flags) -> str | None:
    """Why the rows that are `there` [rows] cannot determine the parameters not held; None where
    they may."""
    free, rows = len(NAMES) - len(held), int(np.count_nonzero(there))
    if rows < free:
        return f"has {rows} rows, too few for {free} free parameters"
    if len(np.unique(table.loss[there])) < 2:
        return "has one value of loss only, which tells nothing"
    columns = {"phi": ("r", table.r), "alpha": ("N", table.parameters), "beta": ("D", table.D)}
    for name, (column, values) in columns.items():
        if name not in held and len(np.unique(values[there])) < 2:
            return f"has one value of {column} only, which cannot tell {name}"
    return None


def edges(exponents: Mapping[str, float]) -> tuple[str, ...]:
    """Which of these exponents, by name, are where the search for them ends."""
    return tuple(each for each, at in exponents.items() if np.isclose(at, RANGES[each]).any())


def _explained(table: ScalingTable, law: Law, weights: Floats) -> float:
    """R², of L itself."""
    rest = table.loss - np.average(table.loss, weights=weights)
    return float(
        1 - (weights * (table.loss - law.loss(table)) ** 2).sum() / (weights * rest**2).sum()
    )
