"""Regression trees fitted to each prefix: one grown greedily, and fifty boosted.

predictions = greedy_tree(xs, ys, queries, depth=4)                  # [prompts, n], float64
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from ..bootstrap import Floats

_TIE = 1e-12  # gains closer than this part of a node's sum of squares differ by rounding alone
_IN_CACHE = 2**16  # inputs' coordinates at once: a few arrays of them fit a core's own cache


class _Node(NamedTuple):
    """The examples in one node of each prompt, once for each coordinate, sorted by it.

    [B, d, m]: which example, its input's coordinate (-inf behind the last one), its output (0).
    """

    example: NDArray[np.int32]
    x: Floats
    y: Floats

    def size(self) -> NDArray[np.intp]:
        return (self.x[:, 0] > -np.inf).sum(1)

    def mean(self) -> Floats:
        return self.y[:, 0].sum(1) / self.size()

    def keep(self, kept: NDArray[np.bool_]) -> _Node:
        """The node of the examples marked in kept [B, d, m], as many for each coordinate."""
        size = kept[:, 0].sum(1)
        shape = (*kept.shape[:2], int(size.max()))
        filled = np.broadcast_to(np.arange(shape[2]) < size[:, None, None], shape)
        source, target = np.flatnonzero(kept), np.flatnonzero(filled)

        def packed(values: NDArray[Any], behind: float) -> NDArray[Any]:
            new = np.full(shape, behind, dtype=values.dtype)
            new.ravel()[target] = values.ravel()[source]
            return new

        return _Node(packed(self.example, 0), packed(self.x, -np.inf), packed(self.y, 0))


def greedy_tree(
    xs: Floats, ys: Floats, queries: Floats, *, depth: int, signs: bool = False
) -> Floats:
    """CART: split by squared error at midpoints, predict a leaf's mean; zero without examples.

    Grown as scikit-learn's DecisionTreeRegressor does, until the depth is reached or a node has one
    example, one output or one input. Of equally good splits the first coordinate's is taken, and of
    these the lowest; scikit-learn takes a random coordinate's, the same in distribution where
    coordinates are exchangeable. With `signs`, inputs and queries are replaced by their signs.
    xs, queries [B, n, d], ys [B, n]; returns [B, n].

    Only the nodes on a query's way are grown: no other has a part in its prediction.
    """
    if signs:
        xs, queries = np.sign(xs), np.sign(queries)
    (prompts, points), dims = ys.shape, xs.shape[2]
    block = max(1, _IN_CACHE // (points * dims))
    return np.concatenate(
        [
            _greedy(xs[some], ys[some], queries[some], depth)
            for some in (slice(first, first + block) for first in range(0, prompts, block))
        ]
    )


def _greedy(xs: Floats, ys: Floats, queries: Floats, depth: int) -> Floats:
    """One block of greedy_tree's prompts."""
    example = np.argsort(xs.mT, axis=2, kind="stable").astype(np.int32)
    prompt = np.arange(len(xs))
    each = prompt[:, None, None]
    whole = _Node(example, np.take_along_axis(xs.mT, example, axis=2), ys[each, example])
    predictions = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        node, inside = whole, np.tile(np.arange(ys.shape[1]) < k, (len(xs), 1))
        for _ in range(depth):
            node = node.keep(inside[each, node.example] & (node.x > -np.inf))
            if node.x.shape[2] == 1:  # one example everywhere
                break
            coordinate, threshold = _best_split(node)
            goes_left = xs[prompt, :, coordinate] <= threshold[:, None]
            inside &= goes_left == (queries[prompt, k, coordinate] <= threshold)[:, None]
        predictions[:, k] = (ys * inside).sum(1) / inside.sum(1)
    return predictions


def _best_split(node: _Node) -> tuple[NDArray[np.intp], Floats]:
    """The coordinate [B] and threshold [B] with the largest fall of the squared error; an infinite
    threshold where all inputs are the same.

    With outputs centred, l examples of m and their sum s on the left, the fall is s² m / l (m - l).
    A node of one output may be split at will: its parts have the same mean.
    """
    size = node.size()[:, None]
    left = np.arange(1, node.x.shape[2])
    factor = size / (left * np.maximum(size - left, 1))
    centred = node.y[:, :, :-1] - node.mean()[:, None, None]
    fall = np.square(np.cumsum(centred, axis=2)) * factor[:, None]
    fall[node.x[:, :, 1:] <= node.x[:, :, :-1]] = -np.inf  # no threshold between equal inputs
    best = fall.max(2)
    enough = best.max(1) - _TIE * np.square(node.y[:, 0]).sum(1)
    prompt = np.arange(len(fall))
    coordinate = np.argmax(best >= enough[:, None], axis=1)
    place = np.argmax(fall[prompt, coordinate] >= enough[:, None], axis=1)
    middle = (node.x[prompt, coordinate, place] + node.x[prompt, coordinate, place + 1]) / 2
    return coordinate, np.where(enough > -np.inf, middle, np.inf)


def boosted_trees(xs: Floats, ys: Floats, queries: Floats, *, signs: bool = False) -> Floats:
    """Fifty gradient-boosted trees of depth 4 at rate 0.1; zero without examples.

    Scikit-learn's HistGradientBoostingRegressor, set as XGBoost's defaults are otherwise: leaves
    of one example, an L2 penalty of 1 on their values, starting at the mean. Up to 255 examples its
    bins hold one value each, so that all splits are tried; what differs from XGBoost is where
    between two values a threshold lies. With `signs`, inputs and queries are replaced by their
    signs. xs, queries [B, n, d], ys [B, n]; returns [B, n]. Slow: one fit for each prefix of each
    prompt.
    """
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
