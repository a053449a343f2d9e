"""Simple predictors on every prefix of every prompt: averaging, majority and nearest neighbours.

Each takes inputs xs [B, n, d], outputs ys [B, n] and queries [B, n, d]. It predicts queries[b, k]
from the first k pairs of prompt b, and zero without pairs.
"""

import numpy as np

from ..bootstrap import Floats


def majority(xs: Floats, ys: Floats, queries: Floats) -> Floats:
    """The mean output so far; where outputs are -1 and 1, its sign is the majority class."""
    means = np.zeros_like(ys)
    means[:, 1:] = ys.cumsum(1)[:, :-1] / np.arange(1, ys.shape[1])
    return means


def averaging(xs: Floats, ys: Floats, queries: Floats) -> Floats:
    """The averaging estimator w·x of a query x: w is the mean of y_i x_i over the pairs before."""
    examples = np.arange(1, ys.shape[1])
    sums = np.cumsum(xs[:, :-1] * ys[:, :-1, None], axis=1)
    predictions = np.zeros(ys.shape)
    predictions[:, 1:] = np.einsum("bnd,bnd->bn", queries[:, 1:], sums) / examples
    return predictions


def nearest_neighbours(xs: Floats, ys: Floats, queries: Floats) -> Floats:
    """The mean output of the three pairs with the inputs nearest to the query in Euclidean
    distance, of all pairs if there are fewer. Ties go to the earlier pair."""
    predictions = np.zeros(ys.shape)
    for k in range(1, ys.shape[1]):
        # Not |x|² − 2x·q + |q|²: a query that equals an input must be at distance exactly zero.
        differences = xs[:, :k] - queries[:, k, None]
        distances = np.einsum("bkd,bkd->bk", differences, differences)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :3]
        predictions[:, k] = np.take_along_axis(ys, nearest, axis=1).mean(1)
    return predictions
