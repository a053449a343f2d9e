"""The search for the parameters with which a scaling law misses its table least.

found = search(problem, held={"E": 0.25})         # ends of the search, the best first
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

End = tuple[float, Floats]  # of a search: the value, and where
# Where exponents may end, and where the search for them starts.
RANGES = {"alpha": (0.005, 6.0), "beta": (0.005, 6.0), "phi": (-3.0, 4.0)}
_STARTS = {
    "alpha": np.geomspace(0.06, 1.5, 8),
    "beta": np.geomspace(0.06, 1.5, 8),
    "phi": np.linspace(-0.25, 1.25, 7),
}
_FLATTEST = 1e-9  # of the steepest direction's curvature: what counts as flat


def search(problem: Problem, held: Mapping[str, float]) -> list[End]:
    """Where L-BFGS-B comes to from the best of a grid of starts, the least value first. `held`
    fixes some of E, alpha, beta and phi."""
    ranges = ranges_of(problem)
    ends = [polished(problem, each, held, ranges) for each in _best_starts(problem, held)]
    return sorted(ends, key=lambda end: end[0])


def ranges_of(problem: Problem) -> Floats:
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


def polished(problem: Problem, start: Floats, held: Collection[str], ranges: Floats) -> End:
    """The least value found from here, and where; those `held` stay. What leaves its range stays at
    the edge while the others go on."""
    free = [index for index, name in enumerate(NAMES) if name not in held]
    value, theta = _descended(problem, start, free)
    while outside := [i for i in free if not ranges[i, 0] <= theta[i] <= ranges[i, 1]]:
        free = [i for i in free if i != outside[0]]
        theta[outside] = np.clip(theta[outside], *ranges[outside].T)
        value, theta = _descended(problem, theta, free)
    return value, theta


def _descended(problem: Problem, start: Floats, free: list[int]) -> End:
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
