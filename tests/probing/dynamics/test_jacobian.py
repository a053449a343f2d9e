"""Spectral norms and radii of known matrices and of real loops, whose derivatives are checked
against finite differences."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from looplab.probing.dynamics.trajectory import (
    Estimate,
    Map,
    follow,
    products,
    spectral_norm,
    spectral_radius,
)
from tests.models.small import as_double, draw_prompts, make_model


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def linear(*matrices: Tensor) -> tuple[Map, Tensor]:
    """x ↦ A x with a matrix A of its own for each prompt, and somewhere to stand."""
    stacked = torch.stack(matrices)
    at = torch.randn(stacked.shape[:2], generator=seeded(7), dtype=torch.float64)
    return lambda x: torch.einsum("bij,bj->bi", stacked, x), at


def assert_exact(
    function: Map, at: Tensor, matrices: Tensor, of_norm: float, of_radius: float
) -> None:
    """The function's spectral norms and radii at a place are those of these derivatives."""
    norm = spectral_norm(function, at, seeded())
    exact = torch.linalg.matrix_norm(matrices, 2)
    torch.testing.assert_close(norm.values, exact, rtol=of_norm, atol=0)
    radius = spectral_radius(function, at, seeded())
    exact = torch.linalg.eigvals(matrices).abs().amax(1)
    torch.testing.assert_close(radius.values, exact, rtol=of_radius, atol=0)


@pytest.mark.parametrize("kind", ["dense", "of rank one", "badly scaled"])
@pytest.mark.parametrize("size", [2, 5])
def test_small_matrices_are_exact(kind: str, size: int) -> None:
    """Also once an iteration has gone through the whole space and rounding is all that is left."""
    drawn = torch.randn(50, size, size, generator=seeded(size), dtype=torch.float64)
    matrices = {
        "dense": drawn,
        "of rank one": drawn[:, :, :1] * drawn[:, :1],
        "badly scaled": drawn.triu() * torch.logspace(-3, 3, size)[:, None].double(),
    }[kind]
    assert_exact(*linear(*matrices), matrices, 1e-9, 1e-9)


def stretching(most: float) -> Tensor:
    """A symmetric matrix in axes of no meaning: eigenvalues evenly from 0.5 to 1, and `most`."""
    values = torch.cat([torch.linspace(0.5, 1, 299), torch.tensor([most])]).double()
    axes = torch.linalg.qr(torch.randn(300, 300, generator=seeded(5), dtype=torch.float64)).Q
    return axes @ torch.diag(values) @ axes.T


@pytest.mark.parametrize(
    ("estimate", "tolerance"), [(spectral_norm, 1e-6), (spectral_radius, 1e-4)]
)
def test_an_iteration_ends_where_every_prompt_rests(
    estimate: Callable[..., Estimate], tolerance: float
) -> None:
    alone = estimate(*linear(stretching(2.0)), seeded())
    both = estimate(*linear(stretching(2.0), stretching(1.05)), seeded())
    assert 16 <= alone.iterations < both.iterations < 128
    exact = torch.tensor([2.0, 1.05], dtype=torch.float64)
    torch.testing.assert_close(both.values, exact, rtol=tolerance, atol=0)
    assert bool((both.change <= tolerance).all())


def real_loop(injection: str, points: int = 6) -> tuple[Map, Tensor]:
    """One loop of a small model in float64, at its state after four."""
    family = "tied" if injection == "none" else "looped"
    model = make_model(family, n_positions=30, injection=injection)
    model.double().requires_grad_(False)
    trajectory = follow(model, as_double(draw_prompts(batch=2, points=points)), 4)
    *_, last = trajectory.states
    assert trajectory.one_loop is not None
    return trajectory.one_loop, last.stream


@pytest.mark.parametrize("injection", ["add", "none"])
@pytest.mark.parametrize("points", [6, 30])  # 59 tokens are beyond what plain products serve
def test_derivatives_of_a_real_loop_are_finite_differences(injection: str, points: int) -> None:
    step, at = real_loop(injection, points)
    direction = torch.randn(at.shape, generator=seeded(1), dtype=torch.float64)
    push, pull = products(step, at)
    forward = push(direction)
    size = 1e-5
    difference = (step(at + size * direction) - step(at - size * direction)) / (2 * size)
    torch.testing.assert_close(forward, difference, rtol=1e-6, atol=1e-7)
    # And the transposed product is that of the same Jacobian.
    other = torch.randn(at.shape, generator=seeded(2), dtype=torch.float64)
    torch.testing.assert_close((pull(other) * direction).sum(), (other * forward).sum())


@pytest.mark.parametrize("injection", ["add", "none"])
def test_estimates_of_a_real_loop_are_those_of_its_whole_jacobian(injection: str) -> None:
    step, at = real_loop(injection)
    whole = torch.func.jacrev(step)(at).flatten(4).flatten(1, 2)  # [B, S·D, B, S, D] in rows
    size = at[0].numel()
    jacobians = [whole[i].reshape(size, 2, size)[:, i] for i in range(2)]
    assert_exact(step, at, torch.stack(jacobians), 1e-6, 1e-4)
