"""The posterior mean among finitely many functions, against brute force and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from reloop.evaluation.baselines import discrete
from reloop.evaluation.baselines.discrete import discrete_posterior
from reloop.evaluation.baselines.linear import ridge

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.standard_normal((5, 3))
XS, QUERIES = RANDOM.standard_normal((2, 4, 7, 3))
YS = np.einsum("bnd,bd->bn", XS, WEIGHTS[[0, 3, 3, 1]]) + 0.5 * RANDOM.standard_normal((4, 7))


def test_it_is_bayes_rule_with_the_density_of_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "_NUMBERS", 100)  # several blocks
    ours = discrete_posterior(XS, YS, QUERIES, WEIGHTS, 0.5)
    for b in range(4):
        for k in range(7):
            likelihoods = [
                np.prod([norm.pdf(YS[b, i], w @ XS[b, i], 0.5) for i in range(k)]) for w in WEIGHTS
            ]
            mean = np.average(WEIGHTS, axis=0, weights=likelihoods)
            assert ours[b, k] == pytest.approx(mean @ QUERIES[b, k], rel=1e-9)


def test_a_clear_prompt_has_its_own_function() -> None:
    xs = RANDOM.standard_normal((4, 200, 3))
    ys = np.einsum("bnd,bd->bn", xs, WEIGHTS[[0, 3, 3, 1]]) + 0.5 * RANDOM.standard_normal((4, 200))
    ours = discrete_posterior(xs, ys, xs, WEIGHTS, 0.5)
    expected = np.einsum("bd,bd->b", xs[:, -1], WEIGHTS[[0, 3, 3, 1]])
    np.testing.assert_allclose(ours[:, -1], expected, atol=1e-6)


def test_with_very_many_functions_it_is_ridge_regression() -> None:
    many = RANDOM.standard_normal((200_000, 3))
    ours = discrete_posterior(XS, YS, QUERIES, many, 0.5)
    np.testing.assert_allclose(ours[:, :5], ridge(XS, YS, QUERIES, 0.25)[:, :5], atol=0.1)


def test_thousands_of_nats_do_not_overflow() -> None:
    ours = discrete_posterior(100 * XS, 100 * YS, QUERIES, WEIGHTS, 0.01)
    assert np.isfinite(ours).all()


def test_without_noise_it_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_std must be above 0"):
        discrete_posterior(XS, YS, QUERIES, WEIGHTS, 0.0)
