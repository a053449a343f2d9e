"""Curves: what each part of them is distributed as, and their Bayes predictor beside the formula of
a Gaussian process."""

import math
from typing import cast

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.baselines import optimal, solvers
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import make_task
from looplab.tasks.curves import Curves
from tests.tasks.conftest import (
    assert_independent_normals,
    assert_mean,
    assert_uncorrelated,
    assert_uniform,
    generator,
    sample_with_parameters,
)


def curves(dims: int = 7, **settings: float) -> Curves:
    return cast(Curves, make_task("curves", dims, settings=settings))


def numbers_of(xs: torch.Tensor) -> torch.Tensor:
    """x of the features [..., d], of the slowest wave's sine and cosine."""
    return torch.atan2(xs[..., 1], xs[..., 2]) / (math.pi / 2)


def test_features_are_a_constant_and_waves() -> None:
    x = torch.tensor([-1.0, -0.3, 0.0, 0.5, 1.0, 3.0]).double()
    waves = [torch.ones_like(x)]
    for k in (1, 2, 3):
        angle = k * math.pi / 2 * x
        waves += [2**0.5 * angle.sin(), 2**0.5 * angle.cos()]
    torch.testing.assert_close(curves().features(x), torch.stack(waves, dim=1))
    torch.testing.assert_close(curves(4).features(x), curves().features(x)[:, :4])
    assert curves().frequencies().tolist() == [k * math.pi / 2 for k in (0, 1, 1, 2, 2, 3, 3)]


def test_x_is_uniform_in_the_interval_and_only_its_features_are_seen() -> None:
    task = curves()
    xs = task.sample(generator(), batch=2000, points=6).xs
    x = numbers_of(xs)
    assert_uniform((x + 1) / 2)
    assert_uncorrelated(x[:, ::2], x[:, 1::2])
    assert_uncorrelated(x[::2], x[1::2])
    torch.testing.assert_close(xs, task.features(x), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dims", [1, 4, 7])
def test_each_feature_has_mean_square_one_and_y_variance_one(dims: int) -> None:
    """Exactly: by the mean over a fine grid of midpoints."""
    task = curves(dims, decay=0.8)
    start, end = task.interval
    x = start + (end - start) * (torch.arange(2000).double() + 0.5) / 2000
    squares = task.features(x).square()
    torch.testing.assert_close(squares.mean(0), torch.ones(dims).double())
    assert float((squares * task.variances()).sum(1).mean()) == pytest.approx(task.divisor)
    if dims % 2:  # at each x, where every sine has its cosine
        torch.testing.assert_close(squares @ task.variances(), torch.ones(2000).double())


def test_variances_fall_by_frequency_as_a_power() -> None:
    variances = curves(decay=2.0).variances()
    torch.testing.assert_close(
        variances / variances[0], torch.tensor([1, 4, 4, 9, 9, 16, 16]).double() ** -1
    )
    assert curves(5, decay=0.0).variances().tolist() == pytest.approx([0.2] * 5)


def test_weights_are_normal_with_these_variances_and_independent() -> None:
    task = curves(8)
    prompts, weights = sample_with_parameters(task, batch=5000, points=2)
    assert_independent_normals(weights / task.variances().sqrt().float())
    assert_uncorrelated(weights[:, 0], prompts.xs[:, 0, 1])


def test_y_is_the_inner_product_and_fresh_noise() -> None:
    task = curves(noise_std=0.3)
    prompts, weights = sample_with_parameters(task, batch=3000, points=8)
    values = torch.einsum("bnd,bd->bn", prompts.xs, weights)
    noise = prompts.ys - values
    assert_independent_normals(noise, 0.3)
    assert_uncorrelated(noise, prompts.xs[:, :, 1])
    assert_mean(prompts.ys[:, 0].square(), 1.0 + 0.3**2)
    exact, _ = sample_with_parameters(curves(noise_std=0.0), batch=3000, points=8)
    torch.testing.assert_close(exact.ys, values)


def gaussian_process(task: Curves, x: Floats, ys: Floats) -> Floats:
    """Its posterior mean at x [B, n] of the y before, with k(x, x') = Σ var_j φ_j(x) φ_j(x'), which
    for sines and cosines is a sum of cosines of the difference."""
    frequencies, variances = (part().numpy() for part in (task.frequencies, task.variances))
    difference = x[:, :, None] - x[:, None]
    kernel = np.full_like(difference, variances[0])
    for frequency, variance in zip(frequencies[1::2], variances[1::2], strict=True):
        kernel += 2 * variance * np.cos(frequency * difference)
    means = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        observed = kernel[:, :k, :k] + task.noise_std**2 * np.eye(k)
        means[:, k] = np.einsum(
            "bk,bk->b", kernel[:, k, :k], np.linalg.solve(observed, ys[:, :k, None])[:, :, 0]
        )
    return means


@pytest.mark.parametrize("settings", [{}, {"noise_std": 0.5, "decay": 0.5}])
def test_the_bayes_predictor_is_the_mean_of_a_gaussian_process(settings: dict[str, float]) -> None:
    """In evaluation, in float64, and as a target of training, on more points than features."""
    task = curves(7, **settings)
    source = np.random.default_rng(0)
    x, ys = source.uniform(-1, 1, (20, 16)), source.normal(size=(20, 16))
    xs = task.features(torch.from_numpy(x)).numpy()
    (solve,) = solvers("bayes", task).values()
    wanted = gaussian_process(task, x, ys)
    np.testing.assert_allclose(solve(xs, ys, xs), wanted, atol=1e-9)
    prompts = task.sample(generator(), 30, 16)
    seen = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    found = task.posterior_mean(prompts, task.dims)
    np.testing.assert_allclose(found.numpy(), solve(*seen, seen[0]), atol=2e-5)
    assert not task.no_posterior_mean()
    assert optimal(task) == "bayes"


def test_a_shift_of_inputs_is_refused() -> None:
    with pytest.raises(ConfigError, match="features of one number"):
        Config.of("task=curves", "evaluation.shifts=all")
