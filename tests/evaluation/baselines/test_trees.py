"""Greedy trees against a plain recursion; boosted trees against direct fits."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from looplab.evaluation.baselines.trees import boosted_trees, greedy_tree
from looplab.evaluation.bootstrap import Floats


def draw(batch: int, points: int, dims: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Inputs, outputs of which many are the same, as a decision tree's are, and queries."""
    rng = np.random.default_rng(seed)
    xs, queries = rng.standard_normal((2, batch, points, dims))
    values = rng.standard_normal((batch, 4))
    ys = np.take_along_axis(values, rng.integers(4, size=(batch, points)), axis=1)
    return xs, ys, queries


def recursion(xs: Floats, ys: Floats, query: Floats, depth: int) -> float:
    """The prediction for query [d] from xs [k, d], ys [k]: every split tried, one by one."""
    splits = []
    for coordinate in range(xs.shape[1]):
        values = np.unique(xs[:, coordinate])
        for threshold in (values[:-1] + values[1:]) / 2:
            left = xs[:, coordinate] <= threshold
            error = sum(np.square(part - part.mean()).sum() for part in (ys[left], ys[~left]))
            splits.append((error, coordinate, threshold))
    if depth == 0 or not splits:
        return float(ys.mean())
    least = min(error for error, _, _ in splits)
    _, coordinate, threshold = next(split for split in splits if split[0] < least + 1e-10)
    same_side = (xs[:, coordinate] <= threshold) == (query[coordinate] <= threshold)
    return recursion(xs[same_side], ys[same_side], query, depth - 1)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("depth", [1, 4])
def test_every_split_tried_one_by_one(depth: int, signs: bool) -> None:
    """With ties, of which signs and small nodes have many: the first coordinate, then the lowest
    threshold."""
    xs, ys, queries = draw(6, 14, 3)
    predictions = greedy_tree(xs, ys, queries, depth=depth, signs=signs)
    assert not predictions[:, 0].any()
    if signs:
        xs, queries = np.sign(xs), np.sign(queries)
    slow = [
        [recursion(xs[b, :k], ys[b, :k], queries[b, k], depth) for k in range(1, 14)]
        for b in range(6)
    ]
    np.testing.assert_allclose(predictions[:, 1:], slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("signs", [False, True])
def test_boosted_trees_are_fits_to_each_prefix(signs: bool) -> None:
    xs, ys, queries = draw(1, 13, 3)
    predictions = boosted_trees(xs, ys, queries, signs=signs)
    assert predictions[0, 0] == 0
    assert predictions[0, 1] == pytest.approx(ys[0, 0])
    if signs:
        xs, queries = np.sign(xs), np.sign(queries)
    model = HistGradientBoostingRegressor(
        max_iter=50, max_depth=4, min_samples_leaf=1, l2_regularization=1, early_stopping=False
    )
    for k in (2, 3, 12):
        slow = model.fit(xs[0, :k], ys[0, :k]).predict(queries[0, k : k + 1])
        assert predictions[0, k] == slow[0]
