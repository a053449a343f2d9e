"""The Lasso against its optimality conditions and scikit-learn, prompt by prompt."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from looplab.evaluation.baselines.lasso import lasso, lasso_weights
from looplab.evaluation.bootstrap import Floats
from tests.evaluation.conftest import asked, one_by_one

ALPHAS = [1e-4, 0.01, 1.0]

# Nothing is given up: neither the solver nor numpy warns. (Not of any kind: the garbage collector
# may find another test's file open just here.)
pytestmark = [
    pytest.mark.filterwarnings("error::UserWarning"),
    pytest.mark.filterwarnings("error::RuntimeWarning"),
]


def assert_optimal(xs: Floats, ys: Floats, weights: Floats, alpha: float) -> None:
    """Xᵀ(y − Xw) = k·alpha·sign(w) where w is not zero, at most k·alpha in size elsewhere: what a
    minimum is, and nothing else (the objective is convex)."""
    for b, k in np.ndindex(ys.shape):
        if k == 0:
            assert not weights[b, k].any()
            continue
        w, x, y = weights[b, k], xs[b, :k], ys[b, :k]
        slopes = x.T @ (y - x @ w) / (k * alpha)
        # A gap of 1e-12·‖y‖²/k leaves slopes that much over the penalty's share of the objective.
        slack = 1e-6
        assert np.abs(slopes).max(initial=0) <= 1 + slack
        np.testing.assert_allclose(slopes[w != 0], np.sign(w[w != 0]), atol=slack)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size", [(4, 4, 6), (6, 15, 6), (2, 1, 3)], ids=str)
def test_every_prefix_is_at_its_minimum(size: tuple[int, int, int], alpha: float) -> None:
    xs, ys, _ = asked(*size)
    assert_optimal(xs, ys, lasso_weights(xs, ys, alpha), alpha)


@pytest.mark.parametrize("alpha", [1e-3])
@pytest.mark.parametrize("kind", ["subspace", "twin inputs", "twin pairs", "signs", "zero"])
def test_prefixes_that_leave_the_minimum_open(kind: str, alpha: float) -> None:
    """Where inputs depend on one another several weights may be the best; any will do."""
    xs, ys, _ = asked(8, 15, 6, rank=3 if kind == "subspace" else None)
    if kind == "twin inputs":
        xs[:, :, 3:] = xs[:, :, :3]
    elif kind == "twin pairs":
        xs[:, 1::2], ys[:, 1::2] = xs[:, :-1:2], ys[:, :-1:2]
    elif kind == "signs":
        xs, ys = np.sign(xs), np.sign(xs).sum(2)
    elif kind == "zero":
        xs[:, :, 2:], ys[::2], ys[1] = 0, 0, 1
    assert_optimal(xs, ys, lasso_weights(xs, ys, alpha), alpha)


def test_predictions_are_scikit_learns() -> None:
    prompts = asked(4, 12, 5)

    def fit(xs: Floats, ys: Floats) -> Floats:
        model = Lasso(0.01, fit_intercept=False, max_iter=1_000_000, tol=1e-14)
        return model.fit(xs, ys).coef_

    slow = one_by_one(prompts, fit)
    np.testing.assert_allclose(lasso(*prompts), slow, rtol=1e-6, atol=1e-7)


def test_a_prefix_that_does_not_converge_is_told() -> None:
    """No gap is ever below this tolerance: every prefix ends at the bound on its steps."""
    xs, ys, _ = asked(2, 4, 2)
    with pytest.warns(UserWarning, match=r"alpha = 0\.1: 6 of 6 prefixes.* gap .* up to \d"):
        weights = lasso_weights(xs, ys, 0.1, tolerance=-1.0)
    assert_optimal(xs, ys, weights, 0.1)
