"""Which rows of a table are asked about together, and which other rows they are answered from.

split = split_contexts(rows=4177, size=40, contexts=64, seed=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from reloop.conf.mistakes import RunError

Rows = NDArray[np.int64]
_GROUPS, _CONTEXTS = 0, 1  # separate streams of random numbers


@dataclass(frozen=True)
class ContextSplit:
    """Every row is in one of the `groups`, which differ by one row in size; group g is answered
    from the rows `contexts[g]` [size], of which none is in it."""

    groups: Sequence[Rows]
    contexts: Rows

    @property
    def most(self) -> int:
        """Rows in the largest group."""
        return max(map(len, self.groups))


def split_contexts(rows: int, size: int, contexts: int, seed: int) -> ContextSplit:
    """Split a table's rows into `contexts` groups, more where it takes more for `size` rows to be
    left outside each, and never more than rows.

    The groups are the same for all seeds, so that they are what may be resampled: neither a row nor
    a context belongs to two. RunError for a table of no more rows than a context has.
    """
    if rows <= size:
        raise RunError(f"a table of {rows} rows has none to ask about beside {size} of context")
    count = min(rows, max(contexts, ceil(rows / (rows - size))))
    order = np.random.default_rng(_GROUPS).permutation(rows)
    groups = np.array_split(order, count)
    random = np.random.default_rng((_CONTEXTS, seed))
    drawn, start = np.empty((count, size), np.int64), 0
    for index, group in enumerate(groups):
        others = random.choice(rows - len(group), size, replace=False)
        drawn[index] = order[others + len(group) * (others >= start)]
        start += len(group)
    return ContextSplit(groups, drawn)
