"""A training set as a model's contexts: standardised, padded, and at most so many rows of it.

scaling = Scaling.of(X); rows = context_rows(random, len(X), size=40, contexts=4)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Maps columns to mean 0 and variance 1 on the rows it is made from, and back. What is constant
    there becomes 0, whatever it is elsewhere. `unit`, `mean` and `std` have one value a column;
    the latter two are those of values over `unit`, the largest, so that none overflows."""

    unit: Floats
    mean: Floats
    std: Floats

    @classmethod
    def of(cls, values: Floats) -> Scaling:
        """The scaling that standardises values [rows, ...]."""
        largest = np.abs(values).max(0)
        unit = np.where(largest > 0, largest, 1.0)
        scaled = values / unit
        # A constant is exactly 1, -1 or 0 by now: its standard deviation is no rounding error.
        return cls(unit, scaled.mean(0), scaled.std(0))

    def apply(self, values: Floats) -> Floats:
        """Standardised values, of the same shape."""
        centred = values / self.unit - self.mean
        return np.where(self.std > 0, centred / np.where(self.std > 0, self.std, 1.0), 0.0)

    def undo(self, values: Floats) -> Floats:
        """What `apply` made these values of."""
        return (values * self.std + self.mean) * self.unit


def pad(xs: Floats, dims: int, left: bool) -> Floats:
    """xs [rows, features] with zeros up to [rows, dims]: after the features, as a curriculum shows
    the first dimensions, or (`left`) before them, as in Yang et al.'s OpenML protocol."""
    absent = dims - xs.shape[1]
    return np.pad(xs, ((0, 0), (absent, 0) if left else (0, absent)))


def context_rows(
    random: RandomState,
    rows: int,
    size: int,
    contexts: int,
    labels: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Numbers of the rows in each context, [contexts, size]; one context of all rows, in random
    order, where no more than `size` are there.

    No row stands twice in a context, nor in two of them before all have been in one. With `labels`
    [rows] every context holds each label as often as the whole does, to one row.
    """
    order = random.permutation(rows)
    if labels is not None:
        order = _interleaved(order, labels)
    if rows <= size:
        return random.permutation(order)[None]
    starts = size * np.arange(contexts)[:, None]
    taken = order[(starts + np.arange(size)) % rows]
    return np.stack([random.permutation(context) for context in taken])


def _interleaved(order: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same order within each label, and every label spread evenly over the whole."""
    place = np.empty(len(order))
    for label in np.unique(labels):
        where = np.flatnonzero(labels[order] == label)
        place[where] = (np.arange(len(where)) + 0.5) / len(where)
    return order[place.argsort(kind="stable")]
