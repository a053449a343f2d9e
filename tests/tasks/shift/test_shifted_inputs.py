"""What defines each shift of the examples: covariance, noise, scales."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reloop.tasks import make_task
from tests.tasks.shifted import linear, noisy, plain, sample
from tests.tasks.statistics import assert_mean, assert_normal

SCALES = (0.333, 0.5, 2.0, 3.0)


def linear_map(xs: Tensor, normal: Tensor) -> Tensor:
    """The one matrix T with xs = normal · T for all prompts at once."""
    left, right = normal.double().flatten(0, 1), xs.double().flatten(0, 1)
    solution: Tensor = torch.linalg.lstsq(left, right).solution
    torch.testing.assert_close(left @ solution, right, atol=1e-5, rtol=0)
    return solution


@pytest.mark.parametrize("dims", [1, 2, 7, 20])
@pytest.mark.parametrize("shift", ["skewed_covariance", "half_subspace"])
def test_one_symmetric_map_of_known_eigenvalues_makes_the_inputs(shift: str, dims: int) -> None:
    task = linear(dims)
    transform = linear_map(sample(shift, task, batch=20).prompts.xs, plain(task, batch=20).xs)
    torch.testing.assert_close(transform, transform.mT, atol=1e-5, rtol=0)
    if shift == "skewed_covariance":
        expected = torch.tensor([1 / j for j in range(1, dims + 1)])
    else:
        kept = max(1, dims // 2)
        expected = torch.tensor([1.0] * kept + [0.0] * (dims - kept))
    expected = expected.double() * (dims / expected.square().sum()).sqrt()
    found = torch.linalg.eigvalsh(transform).flip(0)
    torch.testing.assert_close(found, expected.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("shift", ["skewed_covariance", "half_subspace"])
def test_the_rotation_is_uniform(shift: str) -> None:
    """The first two moments of the projection on half of d = 4 dimensions, from E U_ij⁴ = 3/24 and
    E U_ij² U_ik² = 1/24; the first ones of the skewed map."""
    task = linear(4)
    maps = [
        linear_map(sample(shift, task, seed=s).prompts.xs, plain(task, seed=s).xs)
        for s in range(400)
    ]
    squares = torch.stack([t @ t for t in maps])
    for i in range(4):
        assert_mean(squares[:, i, i], 1.0)
        assert_mean(squares[:, i, i - 1], 0.0)
    if shift == "half_subspace":
        assert_mean(squares[:, 0, 0].square() / 4, 1 / 3)
        assert_mean(squares[:, 0, 1].square() / 4, 1 / 18)


@pytest.mark.parametrize(
    ("name", "divisor"),
    [("linear", 5), ("sparse_linear", 3), ("decision_tree", 1), ("relu_network", 5)],
)
def test_noise_is_standard_normal_and_scaled_back_exactly(name: str, divisor: int) -> None:
    task = make_task(name, dims=5)
    values = plain(task, batch=400).ys
    ys = sample("noise", task, batch=400).prompts.ys
    noise = ys * ((divisor + 1) / divisor) ** 0.5 - values
    assert_normal(noise)
    assert_mean(noise * values, 0.0)


def test_noise_stands_in_place_of_the_tasks_own() -> None:
    one, other = sample("noise", noisy()), sample("noise", linear())
    assert torch.equal(one.prompts.ys, other.prompts.ys)


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_inputs(name: str, scale: float) -> None:
    task = make_task(name, dims=4)
    shifted = sample(f"scaled_x_{scale:g}", task).prompts
    torch.testing.assert_close(shifted.xs, scale * plain(task).xs)
    if name in ("decision_tree", "halfspaces"):
        assert torch.equal(shifted.ys, plain(task).ys)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", ["x", "w"])
def test_the_tasks_noise_is_not_scaled(way: str, scale: float) -> None:
    """Values times s in both ways, and the noise of the prompts without a shift."""
    values, unscaled = plain(linear()).ys, plain(noisy()).ys
    shifted = sample(f"scaled_{way}_{scale:g}", noisy()).prompts
    torch.testing.assert_close(shifted.ys - scale * values, unscaled - values, atol=1e-5, rtol=0)
