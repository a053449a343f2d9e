"""Greedy trees against a plain recursion and scikit-learn's; boosted trees against direct fits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

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
@pytest.mark.parametrize("depth", [1, 2, 4])
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


@pytest.mark.parametrize("dims", [1, 5])
@pytest.mark.parametrize("depth", [2, 4])
def test_scikit_learns_tree(depth: int, dims: int) -> None:
    """Wherever scikit-learn's depends neither on its random state nor on the direction of the
    coordinates, by which it breaks ties: always on one coordinate, and on five often enough."""
    rng = np.random.default_rng(0)
    xs, queries = rng.standard_normal((2, 8, 20, dims)).astype(np.float32).astype(np.float64)
    ys = rng.standard_normal((8, 20))
    predictions = greedy_tree(xs, ys, queries, depth=depth)
    compared = 0
    for b in range(8):
        for k in (1, 2, 7, 19):
            slow = []
            for state in range(8):
                turned = rng.choice((-1.0, 1.0), dims)
                tree = DecisionTreeRegressor(max_depth=depth, random_state=state)
                tree.fit(turned * xs[b, :k], ys[b, :k])
                slow.append(tree.predict(turned * queries[b, k : k + 1])[0])
            if np.ptp(slow) < 1e-12:
                np.testing.assert_allclose(predictions[b, k], slow[0], rtol=1e-12)
                compared += 1
    assert compared == 32 if dims == 1 else compared > 12


def test_few_examples_and_pure_nodes() -> None:
    xs = np.array([[[0.0, 5.0], [2.0, 5.0], [4.0, 5.0], [6.0, 5.0], [0.0, 0.0]]])
    ys = np.array([[3.0, 1.0, 1.0, 1.0, 0.0]])
    near, far = np.full((1, 5, 2), 0.9), np.full((1, 5, 2), 1.1)
    # One example is its own leaf; two are parted at 1, the midpoint, and the rest is pure.
    np.testing.assert_array_equal(greedy_tree(xs, ys, near, depth=4), [[0, 3, 3, 3, 3]])
    np.testing.assert_array_equal(greedy_tree(xs, ys, far, depth=4), [[0, 3, 1, 1, 1]])
    middle = greedy_tree(xs, ys, np.ones((1, 5, 2)), depth=4)  # belongs to the left
    np.testing.assert_array_equal(middle, [[0, 3, 3, 3, 3]])
    # Inputs that are all the same cannot be parted.
    same = greedy_tree(np.ones((1, 5, 2)), ys, far, depth=4)
    np.testing.assert_allclose(same, [[0, 3, 2, 5 / 3, 3 / 2]])


def test_splits_that_gain_nothing_are_made() -> None:
    """The exclusive or of two signs: only the second level tells, scikit-learn gets there too."""
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [1, -1]])
    ys = np.array([[1.0, -1, -1, 1, 0]])
    assert greedy_tree(corners[None], ys, corners[None], depth=2, signs=True)[0, 4] == -1


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_ties_at_any_size_of_outputs(size: float) -> None:
    xs, ys, queries = draw(6, 14, 3)
    scaled = greedy_tree(xs, size * ys, queries, depth=3) / size
    np.testing.assert_allclose(
        scaled, greedy_tree(xs, ys, queries, depth=3), rtol=1e-12, atol=1e-12
    )


def test_prompts_of_many_coordinates_are_taken_a_few_at_a_time() -> None:
    prompts = draw(7, 9, 3000)
    whole = greedy_tree(*prompts, depth=3)
    for row in range(7):
        alone = greedy_tree(*(part[row : row + 1] for part in prompts), depth=3)
        np.testing.assert_array_equal(alone, whole[row : row + 1])


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


def test_boosted_trees_shrink_as_xgboost_does() -> None:
    """Two examples in leaves of their own: each tree takes the rate times r / (1 + λ) off the
    residual r, λ = 1, starting at the mean."""
    xs = np.array([[[-1.0], [1.0], [0.0]]])
    ys = np.array([[0.0, 4.0, 0.0]])
    predictions = boosted_trees(xs, ys, np.array([[[0.0], [0.0], [0.5]]]))
    assert predictions[0, 2] == pytest.approx(4 - 2 * (1 - 0.1 / 2) ** 50, rel=1e-6)


@pytest.mark.parametrize("name", ["greedy", "boosted"])
def test_later_pairs_and_other_prompts_have_no_part(name: str) -> None:
    def solve(xs: Floats, ys: Floats, queries: Floats) -> Floats:
        if name == "greedy":
            return greedy_tree(xs, ys, queries, depth=3)
        return boosted_trees(xs, ys, queries)

    batch, points = (5, 10) if name == "greedy" else (2, 5)
    xs, ys, queries = draw(batch, points, 3)
    predictions = solve(xs, ys, queries)
    np.testing.assert_array_equal(solve(xs[1:2], ys[1:2], queries[1:2]), predictions[1:2])
    k = points // 2
    xs[:, k:], ys[:, k:], queries[:, k + 1 :] = 0.3, -9.0, 5.0
    shorter = solve(xs, ys, queries)
    np.testing.assert_array_equal(shorter[:, : k + 1], predictions[:, : k + 1])
