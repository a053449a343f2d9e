"""Least squares, ridge and averaging against a slow formula each, nearest neighbours against
scikit-learn, prompt by prompt, and logistic regression against a minimisation of its loss."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.neighbors import KNeighborsRegressor

from looplab.evaluation.baselines.logistic import logistic
from looplab.evaluation.baselines.simple import averaging, nearest_neighbours
from looplab.evaluation.bootstrap import Floats
from looplab.tasks.least_squares import least_squares, ridge
from tests.evaluation.conftest import Asked, Fit, asked, one_by_one

EPS = 2.0**-23
SIZES = [(5, 3, 4), (4, 4, 4), (6, 12, 4), (3, 8, 1)]


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


@pytest.mark.parametrize("size", [(1, 9, 4), (5, 3, 4), (4, 12, 2), (2, 1, 3)], ids=str)
def test_neighbours_of_every_prefix(size: tuple[int, int, int]) -> None:
    xs, ys, queries = asked(*size)
    slow = np.zeros(ys.shape)
    for b, k in np.ndindex(ys.shape):
        if k:
            model = KNeighborsRegressor(min(3, k)).fit(xs[b, :k], ys[b, :k])
            slow[b, k] = model.predict(queries[b, k, None])[0]
    predictions = nearest_neighbours(xs, ys, queries)
    np.testing.assert_allclose(predictions, slow, rtol=1e-12)


def test_it_minimises_the_penalised_loss() -> None:
    random = np.random.default_rng(0)
    xs, queries = random.normal(size=(2, 1, 9, 2))
    ys = np.array([[1.0, 1, -1, 1, -1, -1, 1, -1, 1]])
    predictions = logistic(xs, ys, queries)
    assert predictions[0, :3].tolist() == [0.0, 1.0, 1.0]  # of one class, that class
    for k in (3, 8):
        x, y = xs[0, :k], ys[0, :k]

        def loss(weights: np.ndarray, x: np.ndarray = x, y: np.ndarray = y) -> float:
            margins = y * (x @ weights[:2] + weights[2])
            return float(np.logaddexp(0, -margins).sum() + (weights[:2] ** 2).sum() / 2)

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        np.testing.assert_allclose(predictions[0, k], queries[0, k] @ best[:2] + best[2], atol=1e-3)
