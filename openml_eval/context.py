"""A training set as a model's contexts: standardised, padded, and limited in rows.

scaling = Scaling.of(X); rows = context_rows(random, len(X), size=40, contexts=4)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor

from looplab.models import Model, Queries
from looplab.tasks import Prompts

Floats = NDArray[np.float64]
# Queries per pass beside a context. A query attends to its context and itself, but the mask has all
# pairs of queries: longer passes cost more than they save.
_QUERY_CHUNK = 256


@dataclass(frozen=True)
class Scaling:
    """Maps columns to mean 0 and variance 1 on the rows it is fitted to, and back. A column that is
    constant on them becomes 0 on all rows, a missing value (NaN) the mean, 0. `unit`, `mean` and
    `std` have one value per column; `mean` and `std` are those of the values over `unit`, the
    largest, so that none overflows."""

    unit: Floats
    mean: Floats
    std: Floats

    @classmethod
    def of(cls, values: Floats) -> Scaling:
        """The scaling that standardises values [rows, ...], by those that are not missing."""
        missing = np.isnan(values)
        values = np.where(missing, 0.0, values)
        present = ~missing | missing.all(0)  # a column without any value is a constant
        largest = np.abs(values).max(0)
        unit = np.where(largest > 0, largest, 1.0)
        scaled = values / unit
        # A constant is exactly 1, -1 or 0 here, so its standard deviation is exactly 0.
        return cls(unit, scaled.mean(0, where=present), scaled.std(0, where=present))

    def apply(self, values: Floats) -> Floats:
        """Standardised values, of the same shape."""
        centred = values / self.unit - self.mean
        is_mean = np.isnan(values) | (self.std == 0)
        return np.where(is_mean, 0.0, centred / np.where(self.std > 0, self.std, 1.0))

    def undo(self, values: Floats) -> Floats:
        """The inverse of `apply`."""
        return (values * self.std + self.mean) * self.unit


def model_inputs(xs: Floats, dims: int, left: bool, clip: float) -> Floats:
    """Standardised rows [rows, features] as model inputs [rows, dims]: within ± clip, and padded
    with zeros after the features, as in a curriculum's first dimensions, or (`left`) before them,
    as in Yang et al.'s OpenML protocol."""
    padding = dims - xs.shape[1]
    return np.pad(xs.clip(-clip, clip), ((0, 0), (padding, 0) if left else (0, padding)))


@torch.no_grad()
def answered(
    model: Model, contexts: Prompts, queries: Tensor, loops: int, window: int = 1
) -> Tensor:
    """The model's predictions [window, contexts, m, …] at queries [contexts, m, dims]."""
    parts = []
    for chunk in queries.split(_QUERY_CHUNK, dim=1):
        examples = torch.full((chunk.shape[1],), contexts.xs.shape[1], device=chunk.device)
        # Every query has seen the whole context.
        parts.append(model(contexts, loops, window, queries=Queries(chunk, examples)))
    return torch.cat(parts, dim=2)


def context_rows(
    random: RandomState,
    rows: int,
    size: int,
    contexts: int,
    labels: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Indices of the rows in each context, [contexts, size]; one context of all rows, in random
    order, if there are at most `size`.

    No row is twice in a context, nor in two contexts before every row is in one. With `labels`
    [rows] every context has the label frequencies of all rows, up to one row.
    """
    order = random.permutation(rows)
    if labels is not None:
        order = _interleave(order, labels)
    if rows <= size:
        return random.permutation(order)[None]
    starts = size * np.arange(contexts)[:, None]
    # Stretches of one shuffled order, going round: all rows come before any comes again.
    indices = order[(starts + np.arange(size)) % rows]
    return np.stack([random.permutation(context) for context in indices])


def _interleave(order: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spread every label evenly over all rows, in the same order within each label."""
    position = np.empty(len(order))
    for label in np.unique(labels):
        indices = np.flatnonzero(labels[order] == label)
        # The middle of each of its equal shares of [0, 1].
        position[indices] = (np.arange(len(indices)) + 0.5) / len(indices)
    return order[position.argsort(kind="stable")]
