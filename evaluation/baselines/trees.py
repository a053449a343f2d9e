"""Regression trees fitted to each prefix: a greedy one in NumPy, 9 to 100 times as fast as
scikit-learn's in a loop (docs/log.md), and fifty boosted ones by scikit-learn.

predictions = greedy_tree(xs, ys, queries, depth=4)                  # [prompts, n], float64
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bootstrap import Floats

_TIE = 1e-12  # gains closer than this part of a node's sum of squares differ only by rounding
_IN_CACHE = 2**16  # input coordinates per block: a few arrays of them fit a core's cache


class _Node(NamedTuple):
    """The examples in one node of each prompt, once for each coordinate, sorted by it.

    [B, d, m]: the example's index, its input's coordinate (-inf after the last example), its output
    (0 there).
    """

    example: NDArray[np.int32]
    x: Floats
    y: Floats

    def size(self) -> NDArray[np.intp]:
        return (self.x[:, 0] > -np.inf).sum(1)

    def mean(self) -> Floats:
        return self.y[:, 0].sum(1) / self.size()

    def subset(self, mask: NDArray[np.bool_]) -> _Node:
        """The node of the examples in mask [B, d, m], moved to the front of each row.

        Each coordinate of a prompt must keep as many.
        """
        size = mask[:, 0].sum(1)
        shape = (*mask.shape[:2], int(size.max()))
        slots = np.broadcast_to(np.arange(shape[2]) < size[:, None, None], shape)
        source = np.flatnonzero(mask)  # the kept entries, row by row
        target = np.flatnonzero(slots)  # the first size[b] places of the same rows

        def pack(values: NDArray[Any], padding: float) -> NDArray[Any]:
            array = np.full(shape, padding, dtype=values.dtype)
            array.ravel()[target] = values.ravel()[source]
            return array

        return _Node(pack(self.example, 0), pack(self.x, -np.inf), pack(self.y, 0))


def greedy_tree(
    xs: Floats, ys: Floats, queries: Floats, *, depth: int, signs: bool = False
) -> Floats:
    """CART: split by squared error at midpoints, predict a leaf's mean; zero without examples.

    Grown as scikit-learn's DecisionTreeRegressor does, until the depth is reached or a node has one
    example, one output or one input. Ties between splits go to the first coordinate, then to the
    lowest threshold; scikit-learn picks a random coordinate, the same in distribution if
    coordinates are exchangeable. With `signs`, inputs and queries are replaced by their signs.

    Only the nodes on a query's path are grown: no other affects its prediction.
    """
    if signs:
        xs, queries = np.sign(xs), np.sign(queries)
    (prompts, points), dims = ys.shape, xs.shape[2]
    block = max(1, _IN_CACHE // (points * dims))
    predictions = np.empty_like(ys)
    for first in range(0, prompts, block):
        rows = slice(first, first + block)
        predictions[rows] = _greedy(xs[rows], ys[rows], queries[rows], depth)
    return predictions


def _greedy(xs: Floats, ys: Floats, queries: Floats, depth: int) -> Floats:
    """One block of greedy_tree's prompts."""
    # Sorted once for all prefixes: a subset of a sorted row is sorted.
    example = np.argsort(xs.mT, axis=2, kind="stable").astype(np.int32)
    prompt = np.arange(len(xs))
    prompt_index = prompt[:, None, None]
    root = _Node(example, np.take_along_axis(xs.mT, example, axis=2), ys[prompt_index, example])
    predictions = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        node = root
        mask = np.tile(np.arange(ys.shape[1]) < k, (len(xs), 1))  # the examples in the node
        for _ in range(depth):
            node = node.subset(mask[prompt_index, node.example] & (node.x > -np.inf))
            if node.x.shape[2] == 1:  # one example in each
                break
            coordinate, threshold = _best_split(node)
            goes_left = xs[prompt, :, coordinate] <= threshold[:, None]
            query_goes_left = queries[prompt, k, coordinate] <= threshold  # [B]
            mask &= goes_left == query_goes_left[:, None]  # the examples on the query's side
        predictions[:, k] = (ys * mask).sum(1) / mask.sum(1)
    return predictions


def _best_split(node: _Node) -> tuple[NDArray[np.intp], Floats]:
    """The coordinate [B] and threshold [B] with the largest decrease of the squared error; the
    threshold is infinite if all inputs are equal.

    For centred outputs, with l of m examples and their sum s on the left, the decrease is
    s² m / l (m - l). A node of equal outputs may be split anywhere: its parts have the same mean.
    """
    size = node.size()[:, None]
    left = np.arange(1, node.x.shape[2])
    # m / l (m - l); splits past a node's end are excluded below.
    factor = size / (left * np.maximum(size - left, 1))
    centred = node.y[:, :, :-1] - node.mean()[:, None, None]
    # [B, d, m - 1]: the decrease of the square error by a split after each sorted example.
    decrease = np.square(np.cumsum(centred, axis=2)) * factor[:, None]
    decrease[node.x[:, :, 1:] <= node.x[:, :, :-1]] = -np.inf  # no threshold between equal inputs
    best_of_coordinate = decrease.max(2)
    # [B]: a decrease at or above it ties with the largest.
    least_tied = best_of_coordinate.max(1) - _TIE * np.square(node.y[:, 0]).sum(1)
    prompt = np.arange(len(decrease))
    # Of tied splits the first coordinate, then the lowest threshold.
    coordinate = np.argmax(best_of_coordinate >= least_tied[:, None], axis=1)
    position = np.argmax(decrease[prompt, coordinate] >= least_tied[:, None], axis=1)
    middle = (node.x[prompt, coordinate, position] + node.x[prompt, coordinate, position + 1]) / 2
    return coordinate, np.where(least_tied > -np.inf, middle, np.inf)


def boosted_trees(xs: Floats, ys: Floats, queries: Floats, *, signs: bool = False) -> Floats:
    """Fifty gradient-boosted trees of depth 4 at rate 0.1; zero without examples.

    Scikit-learn's HistGradientBoostingRegressor with XGBoost's defaults otherwise: leaves of one
    example, an L2 penalty of 1 on their values, starting at the mean. Up to 255 examples its bins
    hold one value each, so that all splits are tried; only the position of a threshold between two
    values differs from XGBoost. With `signs`, inputs and queries are replaced by their signs.
    Slow: one fit for each prefix of each prompt.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # here: the import takes 1.5 s

    if signs:
        xs, queries = np.sign(xs), np.sign(queries)
    predictions = np.zeros_like(ys)
    model = HistGradientBoostingRegressor(
        learning_rate=0.1,
        max_iter=50,
        max_depth=4,
        max_leaf_nodes=None,
        min_samples_leaf=1,
        l2_regularization=1.0,
        early_stopping=False,
    )
    for prompt in range(len(ys)):
        for k in range(1, ys.shape[1]):
            model.fit(xs[prompt, :k], ys[prompt, :k])
            predictions[prompt, k] = model.predict(queries[prompt, k : k + 1])[0]
    return predictions
