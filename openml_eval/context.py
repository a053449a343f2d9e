"""A training set as a model's contexts: standardised, padded, and at most so many rows of it.

scaling = Scaling.of(X); rows = context_rows(random, len(X), size=40, contexts=4)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Standard deviations. A model norms what it reads: what stands beside a value of this size is lost
# in float64, and beyond it nothing but overflow is new, of float32's squares from 1e19 on.
_FURTHEST = 1e16


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
        """Standardised values, of the same shape; the largest number there is where one would be
        larger."""
        with np.errstate(over="ignore"):
            centred = values / self.unit - self.mean
            scaled = np.where(self.std > 0, centred / np.where(self.std > 0, self.std, 1.0), 0.0)
        return _finite(scaled)

    def undo(self, values: Floats) -> Floats:
        """What `apply` made these values of, in the same bounds."""
        with np.errstate(over="ignore"):
            return _finite((values * self.std + self.mean) * self.unit)


def _finite(values: Floats) -> Floats:
    """Infinite ones as the largest numbers there are."""
    most = np.finfo(np.float64).max
    return np.clip(values, -most, most)


def model_inputs(xs: Floats, dims: int, left: bool) -> Floats:
    """Standardised rows [rows, features] as a model reads them, [rows, dims]: with zeros after the
    features, as a curriculum shows the first dimensions, or (`left`) before them, as in Yang et
    al.'s OpenML protocol.

    A row with a value beyond 1e16 is shortened to it, in its direction: that changes no answer,
    and its squares are finite.
    """
    furthest = np.abs(xs).max(1, keepdims=True)
    near = xs / np.maximum(furthest / _FURTHEST, 1.0)
    absent = dims - xs.shape[1]
    return np.pad(near, ((0, 0), (absent, 0) if left else (0, absent)))


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
