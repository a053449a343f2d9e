"""Least squares, ridge and averaging against a slow formula each, and nearest neighbours against
scikit-learn, prompt by prompt."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import KNeighborsRegressor
from torch import Generator

from looplab.evaluation.baselines.linear import averaging, least_squares, nearest_neighbours, ridge
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import make_task
from tests.evaluation.baselines.prompts import Asked, Fit, asked, one_by_one, with_other_pairs_from

EPS = 2.0**-23
SIZES = [(1, 9, 4), (5, 3, 4), (4, 4, 4), (4, 5, 4), (6, 12, 4), (3, 1, 4), (3, 8, 1)]


def lstsq(xs: Floats, ys: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(xs, ys, rcond=max(xs.shape) * EPS)[0], np.float64)


def normal_equations(xs: Floats, ys: Floats, penalty: float) -> Floats:
    gram = xs.T @ xs + penalty * np.eye(xs.shape[1])
    return np.asarray(np.linalg.solve(gram, xs.T @ ys), np.float64)


def mean_product(xs: Floats, ys: Floats) -> Floats:
    products = [y * x for x, y in zip(xs, ys, strict=True)]
    return np.asarray(np.mean(products, axis=0), np.float64)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("solve", "fit"),
    [
        (least_squares, lstsq),
        (partial(ridge, penalty=0.3), partial(normal_equations, penalty=0.3)),
        (partial(ridge, penalty=0), lstsq),
        (averaging, mean_product),
    ],
    ids=["least squares", "ridge", "ridge without penalty", "averaging"],
)
def test_every_prefix_of_every_prompt(
    solve: partial[Floats], fit: Fit, size: tuple[int, int, int]
) -> None:
    prompts = asked(*size)
    np.testing.assert_allclose(solve(*prompts), one_by_one(prompts, fit), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 3])
def test_inputs_in_a_subspace_up_to_float32(rank: int) -> None:
    """Rounding fills the other directions, with singular values that must not be inverted."""
    prompts = asked(8, 15, 6, rank=rank)
    full = np.linalg.svd(prompts.xs[0], compute_uv=False)
    assert 0 < full[rank] < 1e-6
    slow = one_by_one(prompts, lstsq)
    np.testing.assert_allclose(least_squares(*prompts), slow, rtol=1e-9, atol=1e-9)
    assert np.abs(slow).max() < 1e3  # what else would be of the order of 1 / EPS


@pytest.mark.parametrize("smallest", [0.0, 0.9, 1.1, 1e3])
def test_a_singular_value_counts_from_the_cut_off_on(smallest: float) -> None:
    """Wide, square and tall prefixes whose least value is `smallest` times the cut-off."""
    rng = np.random.default_rng(3)
    for points in (3, 4, 7):
        left, _, right = np.linalg.svd(rng.normal(size=(6, points, 4)), full_matrices=False)
        cut_off = max(points, 4) * EPS
        values = np.array([1, 0.8, 0.5, 0.3])[: right.shape[1]]
        values[-1] = smallest * cut_off
        xs = left * values @ right
        xs = np.concatenate([xs, np.ones((6, 1, 4))], axis=1)
        prompts = Asked(xs, rng.normal(size=(6, points + 1)), rng.normal(size=xs.shape))
        slow = one_by_one(prompts, lstsq)[:, points]
        # Up to 1e6 large where it counts, and known to the rounding of as much again.
        np.testing.assert_allclose(least_squares(*prompts)[:, points], slow, rtol=1e-6, atol=1e-6)
        assert (np.abs(slow).max() > 100) == (smallest > 1)


def test_prompts_with_a_repeated_pair_stand_beside_others() -> None:
    """Their prefixes lose a rank and gain it back when enough pairs have come."""
    prompts = asked(6, 12, 4)
    prompts.xs[::2, 2] = prompts.xs[::2, 1]
    prompts.xs[3, 1] = prompts.xs[4, 5] = 0
    slow = one_by_one(prompts, lstsq)
    np.testing.assert_allclose(least_squares(*prompts), slow, rtol=1e-9, atol=1e-10)


def test_ridge_tends_to_least_squares_and_to_zero() -> None:
    prompts = asked(4, 9, 4)
    np.testing.assert_allclose(
        ridge(*prompts, penalty=1e-12), least_squares(*prompts), rtol=1e-6, atol=1e-6
    )
    assert np.abs(ridge(*prompts, penalty=1e12)).max() < 1e-9


@pytest.mark.parametrize("solve", [least_squares, partial(ridge, penalty=0.1), averaging])
def test_no_prediction_knows_later_pairs(solve: partial[Floats]) -> None:
    prompts = asked(5, 12, 4)
    for first in (0, 1, 4, 5, 9):
        changed = solve(*with_other_pairs_from(prompts, first))
        expected = solve(*prompts)
        np.testing.assert_allclose(
            changed[:, : first + 1], expected[:, : first + 1], rtol=1e-10, atol=1e-12
        )
        assert not np.allclose(changed[:, first + 1 :], expected[:, first + 1 :])


def test_least_squares_falls_as_the_theory_says() -> None:
    """E err / d = (d - k) / d for k < d on dense w, and rounding beyond."""
    drawn = make_task("linear", 6).sample(Generator().manual_seed(1), 4000, 9)
    xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
    errors = np.square(least_squares(xs, ys, xs) - ys) / 6
    for k in range(6):
        standard_error = errors[:, k].std() / np.sqrt(len(errors))
        assert abs(errors[:, k].mean() - (6 - k) / 6) < 5 * standard_error
    # ys are float32 products, so the fit is exact to float32's rounding.
    assert np.median(errors[:, 7:]) < 1e-10


def test_ridge_at_the_noise_is_the_best_there_is() -> None:
    """With y = w·x + N(0, σ²) and penalty σ² the error is that of the posterior, σ² + its variance
    along the query; any other penalty does worse."""
    drawn = make_task("noisy_linear", 4, settings={"noise_std": 1.0}).sample(
        Generator().manual_seed(2), 20_000, 7
    )
    xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
    last = xs[:, -1]
    posterior = np.linalg.inv(np.eye(4) + xs[:, :-1].mT @ xs[:, :-1])
    expected = 1 + np.einsum("bi,bij,bj->b", last, posterior, last)
    errors = {p: np.square(ridge(xs, ys, xs, p) - ys)[:, -1] for p in (0.3, 1.0, 3.0)}
    assert stats.ttest_rel(errors[1.0], expected).pvalue > 1e-4
    for other in (0.3, 3.0):
        assert stats.ttest_rel(errors[other], errors[1.0]).statistic > 4


@pytest.mark.parametrize("neighbours", [1, 3, 5])
@pytest.mark.parametrize("size", [(1, 9, 4), (5, 3, 4), (4, 12, 2), (2, 1, 3)], ids=str)
def test_neighbours_of_every_prefix(size: tuple[int, int, int], neighbours: int) -> None:
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


def test_no_neighbour_is_a_later_pair() -> None:
    prompts = asked(5, 12, 4)
    expected = nearest_neighbours(*prompts)
    changed = nearest_neighbours(*with_other_pairs_from(prompts, 4))
    np.testing.assert_array_equal(changed[:, :5], expected[:, :5])
    assert not np.allclose(changed[:, 5:], expected[:, 5:])
