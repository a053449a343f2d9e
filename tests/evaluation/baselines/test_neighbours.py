"""Nearest neighbours against scikit-learn, prompt by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from reloop.evaluation.baselines.neighbours import nearest_neighbours
from tests.evaluation.baselines.prompts import asked, with_other_pairs_from


@pytest.mark.parametrize("neighbours", [1, 3, 5])
@pytest.mark.parametrize("size", [(1, 9, 4), (5, 3, 4), (4, 12, 2), (2, 1, 3)], ids=str)
def test_every_prefix_of_every_prompt(size: tuple[int, int, int], neighbours: int) -> None:
    xs, ys, queries = asked(*size)
    slow = np.zeros(ys.shape)
    for b, k in np.ndindex(ys.shape):
        if k:
            model = KNeighborsRegressor(min(neighbours, k)).fit(xs[b, :k], ys[b, :k])
            slow[b, k] = model.predict(queries[b, k, None])[0]
    predictions = nearest_neighbours(xs, ys, queries, neighbours)
    np.testing.assert_allclose(predictions, slow, rtol=1e-12)


def test_three_unless_said() -> None:
    prompts = asked(4, 9, 3)
    np.testing.assert_array_equal(nearest_neighbours(*prompts), nearest_neighbours(*prompts, 3))


def test_a_query_that_is_an_input_meets_its_own_output() -> None:
    """Also where the norms are so large that their expansion would lose the distances."""
    xs, ys, queries = asked(3, 8, 2)
    xs += 1e8
    queries[:, 5] = xs[:, 2]
    predictions = nearest_neighbours(xs, ys, queries, neighbours=1)
    np.testing.assert_array_equal(predictions[:, 5], ys[:, 2])


def test_of_equally_near_ones_the_earlier_count() -> None:
    xs = np.tile([2.0, 1.0], 20)[None, :, None]
    ys = np.arange(40.0)[None]
    predictions = nearest_neighbours(xs, ys, np.zeros_like(xs))
    np.testing.assert_allclose(predictions[0, :6], [0, 0, 1 / 2, 1, 4 / 3, 4 / 3])
    np.testing.assert_array_equal(predictions[0, 6:], 3)  # of outputs 1, 3 and 5


def test_no_prediction_knows_later_pairs() -> None:
    prompts = asked(5, 12, 4)
    expected = nearest_neighbours(*prompts)
    changed = nearest_neighbours(*with_other_pairs_from(prompts, 4))
    np.testing.assert_array_equal(changed[:, :5], expected[:, :5])
    assert not np.allclose(changed[:, 5:], expected[:, 5:])


def test_fewer_than_one_neighbour_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        nearest_neighbours(*asked(1, 2, 1), neighbours=0)
