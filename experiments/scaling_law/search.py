"""The search for the parameters of a scaling law that fit its table best.

results = search(problem, fixed={"E": 0.25})      # of all starts, the best first
polished(problem, theta, ["E"], ranges_of(problem))
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import product

import numpy as np
from scipy.optimize import minimize

from .problem import NAMES, Problem
from .table import Floats

End = tuple[float, Floats]  # of a search: the value, and theta
# The ranges of exponents, and the starts of the search.
RANGES = {"alpha": (0.005, 6.0), "beta": (0.005, 6.0), "phi": (-3.0, 4.0)}
_STARTS = {
    "alpha": np.geomspace(0.06, 1.5, 8),
    "beta": np.geomspace(0.06, 1.5, 8),
    "phi": np.linspace(-0.25, 1.25, 7),
}
_FLATTEST = 1e-9  # of the steepest direction's curvature: a smaller one counts as flat


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
