"""Linear functions of inputs with an ill-conditioned covariance: its eigenvalues, axes, weights."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
import torch

from reloop.conf.mistakes import ConfigError
from reloop.probing.targets import find_target
from reloop.tasks import make_task
from reloop.tasks.conditioned_linear import Conditioned, ConditionedLinear
from tests.tasks.statistics import assert_mean, assert_variance_per_prompt, generator


def task(dims: int = 4, **settings: object) -> ConditionedLinear:
    return cast(ConditionedLinear, make_task("conditioned_linear", dims, settings=settings))


def covariances(made: ConditionedLinear, batch: int = 400, dims: int | None = None) -> torch.Tensor:
    _, parameters = made.draw(generator(), batch, points=2, dims=dims)
    root = cast(Conditioned, parameters).root.double()
    return root @ root.mT


def test_eigenvalues_are_a_geometric_progression_with_the_trace_of_the_dims() -> None:
    values = torch.linalg.eigvalsh(covariances(task(condition=27.0, varied=False)))
    ratios = values[:, 1:] / values[:, :-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 3.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(values.sum(1), torch.full((400,), 4.0).double(), rtol=1e-5, atol=0)


def test_condition_numbers_are_log_uniform() -> None:
    values = torch.linalg.eigvalsh(covariances(task(condition=100.0), batch=4000))
    logs = (values[:, -1] / values[:, 0]).log() / math.log(100)
    assert 0 <= logs.min() < 0.01
    assert 0.99 < logs.max() <= 1.0001
    assert_mean(logs.float(), 0.5)
    assert_mean(logs.square().float(), 1 / 3)


def test_axes_are_uniform_rotations_or_the_dimensions() -> None:
    turned = covariances(task(condition=30.0, varied=False), batch=4000)
    # E[Σ] of uniform axes is the identity.
    torch.testing.assert_close(turned.mean(0), torch.eye(4).double(), atol=0.1, rtol=0)
    assert (turned[0] - turned[1]).abs().max() > 0.1
    made = task(condition=30.0, varied=False, rotated=False)
    expected = made.covariance().double()
    torch.testing.assert_close(covariances(made, 3), expected.expand(3, 4, 4), rtol=1e-4, atol=1e-6)
    assert expected.diagonal().diff().max() < 0
    with pytest.raises(ValueError, match="covariance of its own"):
        task(rotated=False).covariance()


def test_inputs_have_the_covariance_of_their_prompt() -> None:
    prompts, parameters = task(condition=9.0).draw(generator(), batch=3, points=40_000)
    root = cast(Conditioned, parameters).root.double()
    for xs, expected in zip(prompts.xs.double(), root @ root.mT, strict=True):
        np.testing.assert_allclose(xs.T @ xs / len(xs), expected, atol=0.06)


@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("dims", [2, 4])
def test_the_variance_of_y_is_the_number_of_visible_dims(whitened: bool, dims: int) -> None:
    made = task(condition=5.0, whitened=whitened)
    prompts, parameters = made.draw(generator(), batch=6000, points=8, dims=dims)
    assert_variance_per_prompt(prompts.ys, dims)
    assert not prompts.xs[:, :, dims:].any()
    weights = cast(Conditioned, parameters).weights
    expected = torch.einsum("bnd,bd->bn", prompts.xs, weights)
    torch.testing.assert_close(prompts.ys, expected, rtol=1e-4, atol=1e-5)


def test_whitened_weights_have_the_inverse_covariance() -> None:
    made = task(condition=8.0, varied=False, rotated=False, whitened=True)
    _, parameters = made.draw(generator(), batch=40_000, points=2)
    weights = cast(Conditioned, parameters).weights.double()
    expected = torch.linalg.inv(made.covariance().double())
    torch.testing.assert_close(weights.mT @ weights / 40_000, expected, rtol=0.05, atol=0.05)


def test_the_probes_target_is_the_weights() -> None:
    prompts, parameters = task(condition=4.0).draw(generator(), batch=3, points=5)
    values = find_target("weights").compute(prompts, parameters, task())
    expected = cast(Conditioned, parameters).weights.double()
    assert torch.equal(values, expected[:, None].expand(3, 5, 4))


def test_a_condition_number_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="condition must be at least 1"):
        task(condition=0.5)
