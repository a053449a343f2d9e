"""Parameters that a table cannot determine, however exact its losses: too few values of N, D or r.

unidentifiable(table, fixed={})         # ("E", "B", "beta") for two values of D
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from .problem import NAMES, Problem
from .table import Floats, ScalingTable

_NOTHING = 1e-9  # of the largest singular value, and of a direction: rounding


def unidentifiable(table: ScalingTable, fixed: Collection[str]) -> tuple[str, ...]:
    """The free parameters (not `fixed`) that can change, together with others, without changing
    any loss of the table.

    With an additive constant E, n values of D give n - 1 differences: three determine B, beta and,
    by the remaining level, E; two do not, unless E is fixed and the sizes determine A and alpha.
    The same holds for sizes and loops. Counts alone do not reveal all cases (sizes that grow with
    D), but the derivatives of the losses do: a direction in which all of them vanish at generic
    exponents is one in which they vanish everywhere.
    """
    problem = Problem.of(table, np.ones(len(table)))
    theta = np.array([0.0, 0.0, 0.0, _power(problem.once, problem.rec), _power(problem.data), 0.37])
    free = [index for index, name in enumerate(NAMES) if name not in fixed]
    slopes = problem.slopes(theta)[1][:, free]
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    sizes, axes = np.linalg.svd(slopes)[1:]
    rank = int(np.count_nonzero(sizes > _NOTHING * sizes[0]))
    in_null_space = np.abs(axes[rank:]).max(axis=0, initial=0) > 1e-6
    names = {NAMES[index] for index, is_free in zip(free, in_null_space, strict=True) if is_free}
    # A and B of the problem are the terms at the middle sizes: the law's depend on the exponents.
    names |= {term for term, exponent in (("A", "alpha"), ("B", "beta")) if exponent in names}
    return tuple(name for name in NAMES if name in names)


def describe_counts(table: ScalingTable) -> str:
    """The number of values of each variable, as text."""
    numbers = (len(np.unique(each)) for each in (table.parameters, table.D, table.r))
    return "{} values of N, {} of D and {} of r".format(*numbers)


def _power(*logarithms: Floats) -> float:
    """An exponent at which a term changes by about e over the spread of its sizes."""
    spread = float(np.logaddexp.reduce(logarithms).std())
    return 0.83 / spread if spread > 0 else 0.83
