"""The law of the worth of one recurrence: its objective and gradient, the search for its minimum,
and the fit to a table of losses.

fit = fit_law(table)                              # fit.law.phi, fit.law.loss(table)
fit_law(table, fixed={"phi": 1.0, "E": 0.25})     # the others, with these two fixed
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, replace
from itertools import product
from types import MappingProxyType

import numpy as np
from scipy.optimize import minimize

from looplab.conf.mistakes import RunError

from .table import Flags, Floats, ScalingTable

NAMES = ("E", "A", "B", "alpha", "beta", "phi")
DELTA = 1e-3  # of the Huber loss on log L (Hoffmann et al., arXiv 2203.15556, approach 3)
End = tuple[float, Floats]  # of a search: the value, and theta
# The ranges of exponents, and the starts of the search.
RANGES = {"alpha": (0.005, 6.0), "beta": (0.005, 6.0), "phi": (-3.0, 4.0)}
_STARTS = {
    "alpha": np.geomspace(0.06, 1.5, 8),
    "beta": np.geomspace(0.06, 1.5, 8),
    "phi": np.linspace(-0.25, 1.25, 7),
}
_FLATTEST = 1e-9  # of the steepest direction's curvature: a smaller one counts as flat


@dataclass(frozen=True)
class Law:
    """L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta (arXiv 2604.21106): at phi = 0 a
    recurrence adds nothing to a shared parameter, at phi = 1 it is worth as much as new ones."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    phi: float

    def loss(self, table: ScalingTable) -> Floats:
        """The law's losses for the rows of a table, [rows]."""
        effective = table.N_once + table.r**self.phi * table.N_rec
        return self.E + self.A * effective**-self.alpha + self.B * table.D**-self.beta


@dataclass(frozen=True)
class Problem:
    """The objective over theta = (log E, log A', log B', alpha, beta, phi), where A' and B' are the
    terms at the table's middle sizes: A and B themselves change by powers of ten with alpha and
    beta. All arrays are [rows]; sizes are logarithms."""

    once: Floats
    rec: Floats
    loops: Floats
    data: Floats
    target: Floats
    weights: Floats
    middle: tuple[float, float]

    @staticmethod
    def of(
        table: ScalingTable, weights: Floats, middle: tuple[float, float] | None = None
    ) -> Problem:
        """The problem of a table whose rows count `weights` [rows] times. `middle`, logarithms of N
        and D, is the table's by default; at 0 the terms are A and B themselves."""
        if middle is None:
            middle = float(np.log(table.parameters).mean()), float(np.log(table.D).mean())
        with np.errstate(divide="ignore"):  # log 0 if nothing runs once
            once = np.log(table.N_once) - middle[0]
        rec, data = np.log(table.N_rec) - middle[0], np.log(table.D) - middle[1]
        target = np.log(table.loss)
        return Problem(once, rec, np.log(table.r), data, target, weights, middle)

    def effective(self, phi: Floats) -> tuple[Floats, Floats]:
        """log N_eff and the looped parameters' share of it, [..., rows], for phi [..., 1]."""
        rec = self.rec + phi * self.loops
        size = np.logaddexp(self.once, rec)
        return size, np.exp(rec - size)

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The residuals of log L over delta, [..., rows], and their derivatives, [..., rows, 6],
        for theta [..., 6]."""
        e, a, b, alpha, beta, phi = np.moveaxis(theta[..., None], -2, 0)
        size, share = self.effective(phi)
        n, d = a - alpha * size, b - beta * self.data
        log_loss = np.logaddexp(np.logaddexp(e, n), d)
        de, dn, dd = (np.exp(term - log_loss) / DELTA for term in (e, n, d))
        derivatives = (de, dn, dd, -dn * size, -dd * self.data, -dn * alpha * share * self.loops)
        return (log_loss - self.target) / DELTA, np.stack(derivatives, axis=-1)

    def value(self, theta: Floats) -> tuple[Floats, Floats]:
        """The Huber loss over delta², summed over the rows, [...], and its gradient [..., 6], for
        theta [..., 6]. In units of delta², because the optimiser's tolerances are absolute."""
        residual, slopes = self.slopes(theta)
        psi = np.clip(residual, -1, 1)
        scores = self.weights * psi
        return (scores * (residual - psi / 2)).sum(-1), (scores[..., None] * slopes).sum(-2)

    def law(self, theta: Floats) -> Law:
        """The law with these parameters."""
        e, a, b, alpha, beta, phi = (float(each) for each in theta)
        A, B = math.exp(a + alpha * self.middle[0]), math.exp(b + beta * self.middle[1])
        return Law(math.exp(e), A, B, alpha, beta, phi)

    def theta(self, law: Law) -> Floats:
        """The parameters of a law, [6]."""
        E, A, B, alpha, beta, phi = astuple(law)
        e = math.log(E) if E > 0 else -math.inf
        a, b = math.log(A) - alpha * self.middle[0], math.log(B) - beta * self.middle[1]
        return np.array([e, a, b, alpha, beta, phi])


def search(problem: Problem, fixed: Mapping[str, float]) -> list[End]:
    """The results of L-BFGS-B from the best of a grid of starts, the least value first. `fixed` are
    values for some of E, alpha, beta and phi."""
    ranges = ranges_of(problem)
    results = [polished(problem, start, fixed, ranges) for start in _best_starts(problem, fixed)]
    return sorted(results, key=lambda result: result[0])


def ranges_of(problem: Problem) -> Floats:
    """The range of each entry of theta: no term is above the losses by more than a few powers of e,
    and one below e^-12 of them is rounding."""
    low, high = float(problem.target.min()) - 12, float(problem.target.max())
    return np.array([(low, high), (low, high + 4), (low, high + 4), *RANGES.values()])


def _best_starts(problem: Problem, fixed: Mapping[str, float]) -> Floats:
    """Of a grid of exponents the best for each alpha, [starts, 6]; the best of all would be
    neighbours, which end at the same minimum. For given exponents the law is linear in E, A and B:
    they are fitted by least squares of the relative error."""
    axes = [[fixed[name]] if name in fixed else _STARTS[name] for name in RANGES]
    grid = np.array(list(product(*axes)))
    alpha, beta, phi = (values[:, None] for values in grid.T)
    size, _ = problem.effective(phi)
    terms = [np.zeros_like(size), -alpha * size, -beta * problem.data + 0 * size]
    columns = np.exp(np.stack(terms, -1) - problem.target[:, None])  # [starts, rows, 3]
    remainder, first = np.ones(problem.target.shape), 0
    if "E" in fixed:
        remainder, first = remainder - fixed["E"] * np.exp(-problem.target), 1
    weighted = np.swapaxes(columns[..., first:] * problem.weights[:, None], 1, 2)
    gram = weighted @ columns[..., first:]
    scale = np.trace(gram, axis1=1, axis2=2)[:, None, None]
    gram += 1e-9 * scale * np.eye(3 - first)  # at small exponents the columns are nearly equal
    amounts = np.linalg.solve(gram, (weighted @ remainder)[..., None])[..., 0]
    least = 1e-3 * math.exp(problem.target.min())  # instead of a negative amount
    theta = np.concatenate([np.zeros((len(grid), first)), np.log(np.maximum(amounts, least))], 1)
    theta = np.concatenate([theta, grid], 1)
    if first:
        theta[:, 0] = math.log(fixed["E"]) if fixed["E"] else -math.inf
    order = np.argsort(problem.value(theta)[0], kind="stable")
    _, first_rows = np.unique(grid[order, 0], return_index=True)
    return theta[order[np.sort(first_rows)]]


def polished(problem: Problem, start: Floats, fixed: Collection[str], ranges: Floats) -> End:
    """The least value from this start, and its theta; `fixed` entries do not change. One that
    leaves its range stays at the edge while the others continue."""
    free = [index for index, name in enumerate(NAMES) if name not in fixed]
    value, theta = _descend(problem, start, free)
    while out_of_range := [i for i in free if not ranges[i, 0] <= theta[i] <= ranges[i, 1]]:
        free = [i for i in free if i != out_of_range[0]]
        theta[out_of_range] = np.clip(theta[out_of_range], *ranges[out_of_range].T)
        value, theta = _descend(problem, theta, free)
    return value, theta


def _descend(problem: Problem, start: Floats, free: list[int]) -> End:
    """L-BFGS-B over the `free` entries of theta along directions in which the residuals have about
    equal slopes: E, A and alpha form a valley so narrow that the parameters themselves would take
    several times as many steps."""
    theta = start.copy()
    if not free:  # all are fixed, or at an edge
        return float(problem.value(theta)[0]), theta
    slopes = problem.slopes(start)[1][:, free]
    lengths, axes = np.linalg.eigh(slopes.T @ (problem.weights[:, None] * slopes))
    axes = axes / np.sqrt(np.maximum(lengths, _FLATTEST * lengths[-1]))

    def objective(coordinates: Floats) -> tuple[float, Floats]:
        theta[free] = start[free] + axes @ coordinates
        value, gradient = problem.value(theta)
        return float(value), gradient[free] @ axes

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 20}
    result = minimize(objective, np.zeros(len(free)), jac=True, method="L-BFGS-B", options=options)
    theta[free] = start[free] + axes @ result.x
    return float(result.fun), theta


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
