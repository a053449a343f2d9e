"""What a table cannot determine however exact its losses are: too few values of N, D or r.

untold(table, held={})                 # ("E", "B", "beta") for two values of D
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from .problem import NAMES, Problem
from .table import Floats, ScalingTable

_NOTHING = 1e-9  # of the largest singular value, and of a direction: what rounding leaves


def untold(table: ScalingTable, held: Collection[str]) -> tuple[str, ...]:
    """The parameters not `held` that can be moved without any loss of the table changing, the
    others moved with them.

    With an additive constant E, n values of D give n - 1 differences: three tell B and beta, and by
    the level that is left E; two do not, unless E is known and the sizes tell A and alpha. Sizes
    and loops go by the same rule. What no count alone shows, as sizes that grow with D, the
    derivatives of the losses do: a direction in which all of them vanish at exponents taken at
    random is one in which they do everywhere.
    """
    problem = Problem.of(table, np.ones(len(table)))
    theta = np.array([0.0, 0.0, 0.0, _steep(problem.once, problem.rec), _steep(problem.data), 0.37])
    free = [index for index, name in enumerate(NAMES) if name not in held]
    slopes = problem.slopes(theta)[1][:, free]
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    sizes, axes = np.linalg.svd(slopes)[1:]
    rank = int(np.count_nonzero(sizes > _NOTHING * sizes[0]))
    moved = np.abs(axes[rank:]).max(axis=0, initial=0) > 1e-6
    found = {NAMES[index] for index, each in zip(free, moved, strict=True) if each}
    # A and B stand for the terms at the middle sizes: at other sizes the exponents bear on them.
    found |= {term for term, exponent in (("A", "alpha"), ("B", "beta")) if exponent in found}
    return tuple(name for name in NAMES if name in found)


def counted(table: ScalingTable) -> str:
    """How many values of each variable there are, in words."""
    numbers = (len(np.unique(each)) for each in (table.parameters, table.D, table.r))
    return "{} values of N, {} of D and {} of r".format(*numbers)


def _steep(*logarithms: Floats) -> float:
    """An exponent at which a term changes by about e over the spread of its sizes."""
    spread = float(np.logaddexp.reduce(logarithms).std())
    return 0.83 / spread if spread > 0 else 0.83
