"""Linear functions, with noise, of ill-conditioned inputs and sparse ones: their distributions,
their formula, and their posterior means as targets."""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.tasks import make_task
from looplab.tasks.conditioned_linear import Conditioned, ConditionedLinear
from looplab.tasks.least_squares import ridge
from looplab.tasks.linear import Linear
from looplab.tasks.posteriors import sparse_posterior
from tests.tasks.conftest import (
    assert_frequencies,
    assert_independent_normals,
    assert_mean,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
    sample_with_parameters,
)


def test_inputs_and_weights_are_standard_normal_and_independent_of_all_others() -> None:
    prompts, weights = sample_with_parameters(make_task("linear", dims=20), batch=5000, points=2)
    assert weights.shape == (5000, 20)
    assert_independent_normals(prompts.xs)
    assert_uncorrelated(prompts.xs[:, 0], prompts.xs[:, 1])
    assert_independent_normals(weights)
    assert_mean((weights[:, 0] * weights[:, 1]).square(), 1.0)
    assert_uncorrelated(weights, prompts.xs[:, 0])


def test_output_is_the_inner_product() -> None:
    prompts, weights = sample_with_parameters(make_task("linear", dims=6), batch=7, points=5)
    xs, w = prompts.xs.double().numpy(), weights.double().numpy()
    expected = np.array([[np.dot(xs[b, i], w[b]) for i in range(5)] for b in range(7)])
    np.testing.assert_allclose(prompts.ys.numpy(), expected, atol=1e-5)
    assert make_task("linear", dims=6).divisor == 6


@pytest.mark.parametrize("noise_std", [0.1, 3.0])
def test_noise_is_normal_and_fresh_at_each_point(noise_std: float) -> None:
    task = make_task("noisy_linear", dims=5, settings={"noise_std": noise_std})
    prompts, weights = sample_with_parameters(task, batch=3000, points=8)
    noise = prompts.ys - task.outputs(prompts.xs, weights)
    assert_independent_normals(noise, noise_std)
    assert_uncorrelated(noise, prompts.xs[:, :, 0])


def test_renormalising_scales_all_prompts_alike() -> None:
    """A scale estimated from the batch would make a prompt depend on its neighbours."""
    settings = {"noise_std": 2.0}
    plain = make_task("noisy_linear", 12, settings=settings).sample(generator(), 3, 40, dims=5)
    scaled_task = make_task("noisy_linear", 12, settings=settings | {"renormalize": True})
    scaled = scaled_task.sample(generator(), 3, 40, dims=5)
    torch.testing.assert_close(scaled.ys, plain.ys * math.sqrt(5 / 9))
    assert torch.equal(scaled.xs, plain.xs)


def conditioned(dims: int = 4, **settings: object) -> ConditionedLinear:
    return cast(ConditionedLinear, make_task("conditioned_linear", dims, settings=settings))


def covariances(made: ConditionedLinear, batch: int = 400, dims: int | None = None) -> torch.Tensor:
    _, parameters = made.draw(generator(), batch, points=2, dims=dims)
    root = cast(Conditioned, parameters).root.double()
    return root @ root.mT


def test_eigenvalues_are_a_geometric_progression_with_the_trace_of_the_dims() -> None:
    values = torch.linalg.eigvalsh(covariances(conditioned(condition=27.0, varied=False)))
    ratios = values[:, 1:] / values[:, :-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 3.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(values.sum(1), torch.full((400,), 4.0).double(), rtol=1e-5, atol=0)


def test_condition_numbers_are_log_uniform() -> None:
    values = torch.linalg.eigvalsh(covariances(conditioned(condition=100.0), batch=4000))
    logs = (values[:, -1] / values[:, 0]).log() / math.log(100)
    assert 0 <= logs.min() < 0.01
    assert 0.99 < logs.max() <= 1.0001
    assert_mean(logs.float(), 0.5)
    assert_mean(logs.square().float(), 1 / 3)


def test_axes_are_uniform_rotations_or_the_dimensions() -> None:
    turned = covariances(conditioned(condition=30.0, varied=False), batch=4000)
    # E[Σ] of uniform axes is the identity.
    torch.testing.assert_close(turned.mean(0), torch.eye(4).double(), atol=0.1, rtol=0)
    assert (turned[0] - turned[1]).abs().max() > 0.1
    made = conditioned(condition=30.0, varied=False, rotated=False)
    expected = made.covariance().double()
    torch.testing.assert_close(covariances(made, 3), expected.expand(3, 4, 4), rtol=1e-4, atol=1e-6)
    assert expected.diagonal().diff().max() < 0
    with pytest.raises(ValueError, match="covariance of its own"):
        conditioned(rotated=False).covariance()


def test_inputs_have_the_covariance_of_their_prompt() -> None:
    prompts, parameters = conditioned(condition=9.0).draw(generator(), batch=3, points=40_000)
    root = cast(Conditioned, parameters).root.double()
    for xs, expected in zip(prompts.xs.double(), root @ root.mT, strict=True):
        np.testing.assert_allclose(xs.T @ xs / len(xs), expected, atol=0.06)


@pytest.mark.parametrize("whitened", [False, True])
def test_the_variance_of_y_is_that_number_for_any_covariance(whitened: bool) -> None:
    dims = 2
    made = conditioned(condition=5.0, whitened=whitened)
    prompts, parameters = made.draw(generator(), batch=6000, points=8, dims=dims)
    assert_variance_per_prompt(prompts.ys, dims)
    assert not prompts.xs[:, :, dims:].any()
    weights = cast(Conditioned, parameters).weights
    expected = torch.einsum("bnd,bd->bn", prompts.xs, weights)
    torch.testing.assert_close(prompts.ys, expected, rtol=1e-4, atol=1e-5)


def test_whitened_weights_have_the_inverse_covariance() -> None:
    made = conditioned(condition=8.0, varied=False, rotated=False, whitened=True)
    _, parameters = made.draw(generator(), batch=40_000, points=2)
    weights = cast(Conditioned, parameters).weights.double()
    expected = torch.linalg.inv(made.covariance().double())
    torch.testing.assert_close(weights.mT @ weights / 40_000, expected, rtol=0.05, atol=0.05)


def test_a_condition_number_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^condition "):
        conditioned(condition=0.5)


@pytest.mark.parametrize(("sparsity", "dims"), [(3, 20), (3, 5), (3, 2), (1, 7), (20, 20), (25, 8)])
def test_support_has_the_sparsity_and_is_uniform_over_visible_dims(
    sparsity: int, dims: int
) -> None:
    """All of them where there are no more."""
    size = min(sparsity, dims)
    task = make_task("sparse_linear", dims=20, settings={"sparsity": sparsity})
    assert task.divisor == min(sparsity, 20)
    _, weights = sample_with_parameters(task, batch=10_000, points=1, dims=dims)
    assert weights.shape == (10_000, 20)
    assert torch.all((weights != 0).sum(1) == size)
    assert torch.all(weights[:, dims:] == 0), "a hidden dimension is in the support"
    if size < dims:
        assert_frequencies(weights[:, :dims] != 0, size / dims)


def test_every_support_is_equally_likely() -> None:
    """Not only each coordinate: all C(5, 3) = 10 subsets have the same frequency."""
    _, weights = sample_with_parameters(make_task("sparse_linear", dims=20), 10_000, 1, dims=5)
    support = weights[:, :5] != 0
    hits = [support[:, list(chosen)].all(1) for chosen in combinations(range(5), 3)]
    assert_frequencies(torch.stack(hits, dim=1), 1 / 10)


def test_weights_on_the_support_are_standard_normal_and_supports_independent() -> None:
    task = make_task("sparse_linear", dims=20)
    _, weights = sample_with_parameters(task, batch=10_000, points=1)
    chosen = weights[weights != 0].view(10_000, 3)
    assert_normal(chosen)
    assert_uncorrelated(chosen[:, 0], chosen[:, 1])
    assert_uncorrelated(chosen[::2], chosen[1::2])
    first = (weights != 0).float()
    assert_uncorrelated(first[::2, 0], first[1::2, 0])


@pytest.mark.parametrize(
    ("name", "dims", "settings"),
    [
        ("linear", 6, {}),
        ("noisy_linear", 5, {"noise_std": 0.25}),
        ("noisy_linear", 5, {"noise_std": 0.25, "renormalize": True}),
        ("sparse_linear", 8, {"sparsity": 2}),
        ("sparse_linear", 10, {"sparsity": 3}),
    ],
)
def test_posterior_means_are_those_of_the_evaluation(
    name: str, dims: int, settings: dict[str, Any]
) -> None:
    """Which are found by other means: in NumPy, by Givens rotations or a singular value
    decomposition."""
    task, visible = make_task(name, dims, settings=settings), dims - 3
    prompts = task.sample(torch.Generator().manual_seed(0), 64, 2 * dims + 1, visible)
    xs, ys = prompts.xs[:, :, :visible].double().numpy(), prompts.ys.double().numpy()
    if name == "sparse_linear":
        wanted = sparse_posterior(xs, ys, xs, settings["sparsity"])
    else:
        wanted = ridge(xs, ys, xs, settings.get("noise_std", 0.0) ** 2)
    found = task.posterior_mean(prompts, visible)
    assert found.dtype == prompts.ys.dtype
    np.testing.assert_allclose(found.numpy(), wanted, atol=2e-5)


def test_it_is_what_prompts_with_the_same_beginning_come_to_on_average() -> None:
    """The definition, by rejection: of two dimensions, one pair seen, the next output's mean."""
    task = make_task("sparse_linear", 2, settings={"sparsity": 1})
    generator = torch.Generator().manual_seed(0)
    w = task.draw(generator, 400_000, 1)[1]
    x = torch.tensor([[1.0, -0.5], [0.3, 2.0]])
    outputs = w @ x.mT  # [prompts, 2]
    near = (outputs[:, 0] - 0.8).abs() < 0.02
    prompts = type(task.sample(generator, 1, 1))(x[None], torch.tensor([[0.8, 0.0]]))
    found = float(task.posterior_mean(prompts, 2)[0, 1])
    assert found == pytest.approx(float(outputs[near, 1].mean()), abs=0.05)


@dataclass(frozen=True)
class Cubed(Linear):
    """Someone's own function of a linear one."""

    name = "cubed"


@pytest.mark.parametrize(
    "task",
    [
        make_task("decision_tree", 4),
        make_task("linear", 4, distinct_prompts=8),
        make_task("linear", 4, distinct_functions=8),
        make_task("sparse_linear", 40, settings={"sparsity": 10}),  # 847,660,528 supports
        Cubed(3),
    ],
    ids=lambda task: task.name,
)
def test_a_task_that_has_none_says_so(task: Any) -> None:
    assert task.no_posterior_mean()
    for name in ("linear", "noisy_linear", "sparse_linear"):
        assert not make_task(name, 4).no_posterior_mean()
