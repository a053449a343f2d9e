"""Logistic regression against a minimisation of its loss."""

import numpy as np
from scipy.optimize import minimize

from looplab.evaluation.baselines.logistic import logistic


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
