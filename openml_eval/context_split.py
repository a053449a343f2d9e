"""A split of a table's rows into groups of queries, each with a context of other rows.

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
_GROUPS, _CONTEXTS = 0, 1  # seeds of separate random streams


@dataclass(frozen=True)
class ContextSplit:
    """Every row is in one of the `groups`, whose sizes differ by at most one row; the context of
    group g is the rows `contexts[g]` [size], of which none is in the group."""

    groups: Sequence[Rows]
    contexts: Rows

    @property
    def group_size(self) -> int:
        """The number of rows in the largest group."""
        return max(map(len, self.groups))


def split_contexts(rows: int, size: int, contexts: int, seed: int) -> ContextSplit:
    """Split a table's rows into `contexts` groups, more if that is needed to leave `size` rows
    outside each, and at most one per row.

    The groups are the same for all seeds, so that they can be resampled: neither a row nor a
    context belongs to two. RunError for a table with no more rows than a context.
    """
    if rows <= size:
        raise RunError(f"a table of {rows} rows has none to ask about beside {size} of context")
    count = min(rows, max(contexts, ceil(rows / (rows - size))))
    order = np.random.default_rng(_GROUPS).permutation(rows)
    groups = np.array_split(order, count)
    random = np.random.default_rng((_CONTEXTS, seed))
    context_rows, start = np.empty((count, size), np.int64), 0
    for index, group in enumerate(groups):
        indices = random.choice(rows - len(group), size, replace=False)
        context_rows[index] = order[indices + len(group) * (indices >= start)]
        start += len(group)
    return ContextSplit(groups, context_rows)
