"""The law of the worth of one recurrence, fitted to a table of losses.

fit = fit_law(table)                              # fit.law.phi, fit.law.loss(table)
fit_law(table, fixed={"phi": 1.0, "E": 0.25})     # the others, with these two fixed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from looplab.conf.mistakes import RunError

from .problem import DELTA, NAMES, RANGES, Law, Problem, polished, ranges_of, search
from .table import Flags, Floats, ScalingTable

_NONE_FIXED: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Fit:
    """A fitted law: `huber`, the weighted mean Huber loss of log L's residuals; `r2`, the share of
    the variance of L it explains; `fixed`, the parameters that were given; `at_edge`, the
    exponents at an end of their range, which the table does not determine."""

    law: Law
    huber: float
    r2: float
    fixed: tuple[str, ...]
    at_edge: tuple[str, ...]


def fit_law(
    table: ScalingTable,
    fixed: Mapping[str, float] = _NONE_FIXED,
    weights: Floats | None = None,
    start: Law | None = None,
) -> Fit:
    """The law with the least Huber loss on log L over the rows, each counted `weights` times.

    `fixed` are values for some of E, alpha, beta and phi; E may be 0. L-BFGS-B starts from the best
    of a grid of starts, or from `start` alone. Raises RunError for a table that cannot determine
    the free parameters, and for an E that is not below every loss.
    """
    weights = np.ones(len(table)) if weights is None else weights
    if len(table) and fixed.get("E", 0) >= table.loss.min():
        row = int(table.loss.argmin())
        raise RunError(
            f"E must be below every loss, got {fixed['E']:g} beside {table.loss[row]:g} in row "
            f"{row + 1}"
        )
    reason = undetermined(table, fixed, weights > 0)
    if reason:
        raise RunError(f"the table {reason}")
    problem = Problem.of(table, weights)
    if start is None:
        _, theta = search(problem, fixed)[0]
    else:
        theta_0 = problem.theta(replace(start, **fixed))
        _, theta = polished(problem, theta_0, fixed, ranges_of(problem))
    law = problem.law(theta)
    at_edge = edges({name: getattr(law, name) for name in RANGES if name not in fixed})
    huber = float(problem.value(theta)[0]) * DELTA**2 / weights.sum()
    return Fit(law, huber, _r2(table, law, weights), tuple(fixed), at_edge)


def undetermined(table: ScalingTable, fixed: Mapping[str, float], mask: Flags) -> str | None:
    """The reason why the rows of `mask` [rows] cannot determine the free parameters; None if they
    may."""
    free, rows = len(NAMES) - len(fixed), int(np.count_nonzero(mask))
    if rows < free:
        return f"has {rows} rows, too few for {free} free parameters"
    if len(np.unique(table.loss[mask])) < 2:
        return "has one value of loss only, which tells nothing"
    columns = {"phi": ("r", table.r), "alpha": ("N", table.parameters), "beta": ("D", table.D)}
    for name, (column, values) in columns.items():
        if name not in fixed and len(np.unique(values[mask])) < 2:
            return f"has one value of {column} only, which cannot tell {name}"
    return None


def edges(exponents: Mapping[str, float]) -> tuple[str, ...]:
    """The names of the exponents that are at an end of their range."""
    return tuple(name for name, value in exponents.items() if np.isclose(value, RANGES[name]).any())


def _r2(table: ScalingTable, law: Law, weights: Floats) -> float:
    """R² of L (not of log L)."""
    deviations = table.loss - np.average(table.loss, weights=weights)
    return float(
        1 - (weights * (table.loss - law.loss(table)) ** 2).sum() / (weights * deviations**2).sum()
    )
