"""The law of what one recurrence is worth, fitted to a table of losses.

fit = fit_law(table)                              # fit.law.phi, fit.law.loss(table)
fit_law(table, held={"phi": 1.0, "E": 0.25})      # the others, with these two held
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType

import numpy as np
from scipy.optimize import minimize

from conf.checks import RunError

from .scaling_problem import DELTA, NAMES, Law, Problem
from .scaling_table import Flags, Floats, ScalingTable

_NONE_HELD: Mapping[str, float] = MappingProxyType({})
# Where exponents may end, and where the search for them starts.
RANGES = {"alpha": (0.005, 6.0), "beta": (0.005, 6.0), "phi": (-3.0, 4.0)}
_STARTS = {
    "alpha": np.geomspace(0.06, 1.5, 8),
    "beta": np.geomspace(0.06, 1.5, 8),
    "phi": np.linspace(-0.25, 1.25, 7),
}
_FLATTEST = 1e-9  # of the steepest direction's curvature: what counts as flat


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
        starts = _best_starts(problem, held)
    else:
        starts = problem.theta(replace(start, **held))[None]
    ranges = _ranges(problem)
    ends = [_polished(problem, each, held, ranges) for each in starts]
    _, theta = min(ends, key=lambda end: end[0])
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


def _ranges(problem: Problem) -> Floats:
    """Where each entry of theta is searched: no term is above the losses by more than a few powers
    of e, and one below e^-12 of them is no more than rounding."""
    low, high = float(problem.target.min()) - 12, float(problem.target.max())
    return np.array([(low, high), (low, high + 4), (low, high + 4), *RANGES.values()])


def _best_starts(problem: Problem, held: Mapping[str, float]) -> Floats:
    """Of a grid of exponents the best for each alpha, [starts, 6]; the best of all would be
    neighbours, which end in one place. Given exponents the law is linear in E, A and B: least
    squares of the relative error says which."""
    axes = [[held[name]] if name in held else _STARTS[name] for name in RANGES]
    grid = np.array(list(product(*axes)))
    alpha, beta, phi = (each[:, None] for each in grid.T)
    size, _ = problem.effective(phi)
    terms = [np.zeros_like(size), -alpha * size, -beta * problem.data + 0 * size]
    columns = np.exp(np.stack(terms, -1) - problem.target[:, None])  # [starts, rows, 3]
    rest, first = np.ones(problem.target.shape), 0
    if "E" in held:
        rest, first = rest - held["E"] * np.exp(-problem.target), 1
    weighted = np.swapaxes(columns[..., first:] * problem.weights[:, None], 1, 2)
    gram = weighted @ columns[..., first:]
    scale = np.trace(gram, axis1=1, axis2=2)[:, None, None]
    gram += 1e-9 * scale * np.eye(3 - first)  # at small exponents the columns are nearly one
    amounts = np.linalg.solve(gram, (weighted @ rest)[..., None])[..., 0]
    least = 1e-3 * math.exp(problem.target.min())  # a negative amount: start from little
    theta = np.concatenate([np.zeros((len(grid), first)), np.log(np.maximum(amounts, least))], 1)
    theta = np.concatenate([theta, grid], 1)
    if first:
        theta[:, 0] = math.log(held["E"]) if held["E"] else -math.inf
    order = np.argsort(problem.value(theta)[0], kind="stable")
    _, first_of = np.unique(grid[order, 0], return_index=True)
    return theta[order[np.sort(first_of)]]


def _polished(
    problem: Problem, start: Floats, held: Mapping[str, float], ranges: Floats
) -> tuple[float, Floats]:
    """The least value found from here, and where. What leaves its range stays at the edge while the
    others go on."""
    free = [index for index, name in enumerate(NAMES) if name not in held]
    value, theta = _descended(problem, start, free)
    while outside := [i for i in free if not ranges[i, 0] <= theta[i] <= ranges[i, 1]]:
        free = [i for i in free if i != outside[0]]
        theta[outside] = np.clip(theta[outside], *ranges[outside].T)
        value, theta = _descended(problem, theta, free)
    return value, theta


def _descended(problem: Problem, start: Floats, free: list[int]) -> tuple[float, Floats]:
    """L-BFGS-B over the `free` entries of theta along directions in which the residuals have about
    equal slopes: E, A and alpha make a valley so narrow that the parameters themselves would take
    several times the steps."""
    theta = start.copy()
    if not free:  # all are held, or at an edge
        return float(problem.value(theta)[0]), theta
    slopes = problem.slopes(start)[1][:, free]
    lengths, axes = np.linalg.eigh(slopes.T @ (problem.weights[:, None] * slopes))
    axes = axes / np.sqrt(np.maximum(lengths, _FLATTEST * lengths[-1]))

    def objective(along: Floats) -> tuple[float, Floats]:
        theta[free] = start[free] + axes @ along
        value, gradient = problem.value(theta)
        return float(value), gradient[free] @ axes

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 20}
    found = minimize(objective, np.zeros(len(free)), jac=True, method="L-BFGS-B", options=options)
    theta[free] = start[free] + axes @ found.x
    return float(found.fun), theta


def _explained(table: ScalingTable, law: Law, weights: Floats) -> float:
    """R², of L itself."""
    rest = table.loss - np.average(table.loss, weights=weights)
    return float(
        1 - (weights * (table.loss - law.loss(table)) ** 2).sum() / (weights * rest**2).sum()
    )
