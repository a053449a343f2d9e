"""Nearest neighbours on every prefix of every prompt."""

from __future__ import annotations

import numpy as np

from ..bootstrap import Floats


def nearest_neighbours(xs: Floats, ys: Floats, queries: Floats, neighbours: int = 3) -> Floats:
    """The mean output of the `neighbours` pairs with the inputs nearest to the query in Euclidean
    distance, of all pairs if there are fewer; zero without pairs. Ties go to the earlier pair.

    Inputs xs [B, n, d], outputs ys [B, n]; queries[b, k] of [B, n, d] is predicted from the first
    k pairs of prompt b. Raises ValueError for fewer than one neighbour.
    """
    if neighbours < 1:
        raise ValueError(f"neighbours must be at least 1, got {neighbours}")
    predictions = np.zeros(ys.shape)
    for k in range(1, ys.shape[1]):
        # Not |x|² − 2x·q + |q|²: a query that equals an input must be at distance exactly zero.
        differences = xs[:, :k] - queries[:, k, None]
        distances = np.einsum("bkd,bkd->bk", differences, differences)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :neighbours]
        predictions[:, k] = np.take_along_axis(ys, nearest, axis=1).mean(1)
    return predictions
