"""Linear functions, with and without noise: their distributions and their formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from reloop.tasks import make_task
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import (
    assert_mean,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
)


def test_inputs_are_independent_standard_normals() -> None:
    xs = make_task("linear", dims=20).sample(generator(), batch=1500, points=10).xs
    assert_normal(xs)
    assert_uncorrelated(xs[:, :, ::2], xs[:, :, 1::2])
    assert_uncorrelated(xs[:, ::2], xs[:, 1::2])
    assert_uncorrelated(xs[::2], xs[1::2])


def test_weights_are_standard_normal_and_independent_of_the_inputs() -> None:
    prompts, weights = sample_with_parameters(make_task("linear", dims=20), batch=5000, points=2)
    assert weights.shape == (5000, 20)
    assert_normal(weights)
    assert_uncorrelated(weights, prompts.xs[:, 0])


def test_output_is_the_inner_product() -> None:
    prompts, weights = sample_with_parameters(make_task("linear", dims=6), batch=7, points=5)
    xs, w = prompts.xs.double().numpy(), weights.double().numpy()
    expected = np.array([[np.dot(xs[b, i], w[b]) for i in range(5)] for b in range(7)])
    np.testing.assert_allclose(prompts.ys.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("dims", [3, 20])
def test_variance_of_y_is_the_number_of_visible_dims(dims: int) -> None:
    prompts = make_task("linear", dims=20).sample(generator(), 4000, points=8, dims=dims)
    assert_variance_per_prompt(prompts.ys, dims)


@pytest.mark.parametrize("name", ["linear", "noisy_linear"])
def test_divisor_is_the_variance_without_noise(name: str) -> None:
    assert make_task(name, dims=17).divisor == 17


@pytest.mark.parametrize("noise_std", [0.1, 1.0, 3.0])
def test_noise_is_normal_and_fresh_at_each_point(noise_std: float) -> None:
    task = make_task("noisy_linear", dims=5, settings={"noise_std": noise_std})
    prompts, weights = sample_with_parameters(task, batch=3000, points=8)
    noise = prompts.ys - task.outputs(prompts.xs, weights)
    assert_normal(noise, noise_std)
    assert_uncorrelated(noise[:, ::2], noise[:, 1::2])
    assert_uncorrelated(noise[::2], noise[1::2])
    assert_uncorrelated(noise, prompts.xs[:, :, 0])


@pytest.mark.parametrize("dims", [4, 12])
def test_noise_adds_its_variance_unless_renormalised(dims: int) -> None:
    for renormalize, variance in ((False, dims + 4), (True, dims)):
        task = make_task(
            "noisy_linear", dims=12, settings={"noise_std": 2.0, "renormalize": renormalize}
        )
        assert_variance_per_prompt(task.sample(generator(), 6000, 8, dims).ys, variance)


def test_renormalising_scales_all_prompts_alike() -> None:
    """A scale estimated from the batch would make a prompt depend on its neighbours."""
    settings = {"noise_std": 2.0}
    plain = make_task("noisy_linear", 12, settings=settings).sample(generator(), 3, 40, dims=5)
    scaled_task = make_task("noisy_linear", 12, settings=settings | {"renormalize": True})
    scaled = scaled_task.sample(generator(), 3, 40, dims=5)
    torch.testing.assert_close(scaled.ys, plain.ys * math.sqrt(5 / 9))
    assert torch.equal(scaled.xs, plain.xs)


def test_noise_of_zero_is_the_linear_task() -> None:
    noisy = make_task("noisy_linear", dims=5, settings={"noise_std": 0})
    prompts, weights = sample_with_parameters(noisy, batch=4, points=6)
    assert torch.equal(prompts.ys, noisy.outputs(prompts.xs, weights))


def test_weights_of_neighbouring_prompts_are_independent() -> None:
    _, weights = sample_with_parameters(make_task("linear", dims=20), batch=4000, points=1)
    assert_uncorrelated(weights[::2], weights[1::2])
    assert_uncorrelated(weights[:, ::2], weights[:, 1::2])
    assert_mean((weights[:, 0] * weights[:, 1]).square(), 1.0)
