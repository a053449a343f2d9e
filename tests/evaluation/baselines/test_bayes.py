"""The Bayes-optimal predictors against enumeration by Gaussian densities."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from torch import Generator

from looplab.evaluation.bootstrap import Floats
from looplab.tasks import make_task, posteriors
from looplab.tasks.posteriors import discrete_posterior, sparse_posterior

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.standard_normal((5, 3))
XS, QUERIES = RANDOM.standard_normal((2, 4, 7, 3))
YS = np.einsum("bnd,bd->bn", XS, WEIGHTS[[0, 3, 3, 1]]) + 0.5 * RANDOM.standard_normal((4, 7))


def draw(dims: int, sparsity: int, batch: int, points: int, seed: int = 0) -> tuple[Floats, Floats]:
    task = make_task("sparse_linear", dims, settings={"sparsity": sparsity})
    drawn = task.sample(Generator().manual_seed(seed), batch, points)
    return drawn.xs.double().numpy(), drawn.ys.double().numpy()


def noisy(ys: Floats, noise_std: float) -> Floats:
    return ys + noise_std * np.random.default_rng(1).standard_normal(ys.shape)


def enumerated(xs: Floats, ys: Floats, query: Floats, sparsity: int, noise_std: float) -> float:
    """The posterior mean at query [d] from xs [k, d], ys [k]: joint densities of the outputs,
    conditional means of a Gaussian. Without noise only where all supports agree, k <= sparsity."""
    evidence, means = [], []
    for support in combinations(range(xs.shape[1]), sparsity):
        seen, asked = xs[:, support], query[list(support)]
        covariance = seen @ seen.T + noise_std**2 * np.eye(len(ys))
        evidence.append(multivariate_normal.logpdf(ys, cov=covariance))
        means.append(asked @ seen.T @ np.linalg.solve(covariance, ys))
    weights = np.exp(np.array(evidence) - np.max(evidence))
    return float(weights @ means / weights.sum())


@pytest.mark.parametrize("noise_std", [1.0, 0.001])
@pytest.mark.parametrize("sparsity", [1, 2])
def test_all_supports_by_their_evidence(sparsity: int, noise_std: float) -> None:
    xs, clean = draw(4, sparsity, 6, 8)
    ys, queries = noisy(clean, noise_std), draw(4, sparsity, 6, 8, seed=2)[0]
    predictions = sparse_posterior(xs, ys, queries, sparsity, noise_std)
    assert not predictions[:, 0].any()
    for b in range(6):
        for k in range(1, 8):
            slow = enumerated(xs[b, :k], ys[b, :k], queries[b, k], sparsity, noise_std)
            # The densities' covariances are inverted at condition numbers of some 1 / noise².
            assert predictions[b, k] == pytest.approx(slow, rel=1e-6, abs=1e-8 / noise_std)


@pytest.mark.parametrize("sparsity", [2, 3])
def test_without_noise_up_to_as_many_examples_as_weights(sparsity: int) -> None:
    """There every support agrees with the examples, and the limit of no noise has a formula."""
    xs, ys = draw(6, sparsity, 40, sparsity + 1)
    queries = draw(6, sparsity, 40, sparsity + 1, seed=2)[0]
    predictions = sparse_posterior(xs, ys, queries, sparsity)
    slow = [
        [
            enumerated(xs[b, :k], ys[b, :k], queries[b, k], sparsity, 0)
            for k in range(1, sparsity + 1)
        ]
        for b in range(40)
    ]
    # An output is known to float32's rounding, 1e-7, which near-singular supports magnify.
    np.testing.assert_allclose(predictions[:, 1:], slow, rtol=1e-4, atol=1e-4)


def test_one_example_more_than_weights_names_the_support() -> None:
    xs, ys = draw(20, 3, 500, 7)
    misses = np.abs(sparse_posterior(xs, ys, xs, 3) - ys)
    # Now and then a wrong support agrees with four examples to float32's rounding: 3 in 12,800.
    assert (misses[:, 4] > 1e-3).sum() <= 1
    assert misses[:, 5:].max() < 1e-5
    assert np.median(misses[:, 3]) > 0.1  # with three, all supports agree


def test_it_is_bayes_rule_with_the_density_of_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posteriors, "_NUMBERS", 100)  # several blocks
    ours = discrete_posterior(XS, YS, QUERIES, WEIGHTS, 0.5)
    for b in range(4):
        for k in range(7):
            likelihoods = [
                np.prod([norm.pdf(YS[b, i], w @ XS[b, i], 0.5) for i in range(k)]) for w in WEIGHTS
            ]
            mean = np.average(WEIGHTS, axis=0, weights=likelihoods)
            assert ours[b, k] == pytest.approx(mean @ QUERIES[b, k], rel=1e-9)
