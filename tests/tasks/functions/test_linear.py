"""Linear functions, with noise, of ill-conditioned inputs and sparse ones: their distributions,
their formula, and their posterior means as targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.baselines.bayes import sparse_posterior
from looplab.evaluation.baselines.linear import ridge
from looplab.probing.targets import find_target
from looplab.tasks import make_task
from looplab.tasks.conditioned_linear import Conditioned, ConditionedLinear
from looplab.tasks.linear import Linear
from tests.tasks.statistics import (
    assert_frequencies,
    assert_mean,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
    sample_with_parameters,
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
@pytest.mark.parametrize("dims", [2, 4])
def test_the_variance_of_y_is_the_number_of_visible_dims(whitened: bool, dims: int) -> None:
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


def test_the_probes_target_is_the_weights() -> None:
    prompts, parameters = conditioned(condition=4.0).draw(generator(), batch=3, points=5)
    values = find_target("weights").compute(prompts, parameters, conditioned())
    expected = cast(Conditioned, parameters).weights.double()
    assert torch.equal(values, expected[:, None].expand(3, 5, 4))


def test_a_condition_number_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="condition must be at least 1"):
        conditioned(condition=0.5)


@pytest.mark.parametrize(
    ("sparsity", "dims", "size"),
    [(3, 20, 3), (3, 5, 3), (3, 3, 3), (3, 2, 2), (3, 1, 1), (1, 20, 1), (20, 20, 20), (25, 8, 8)],
)
def test_support_has_exactly_the_sparsity_or_all_visible_dims(
    sparsity: int, dims: int, size: int
) -> None:
    task = make_task("sparse_linear", dims=20, settings={"sparsity": sparsity})
    _, weights = sample_with_parameters(task, batch=500, points=1, dims=dims)
    assert weights.shape == (500, 20)
    assert torch.all((weights != 0).sum(1) == size)
    assert torch.all(weights[:, dims:] == 0), "a hidden dimension is in the support"


@pytest.mark.parametrize(("sparsity", "dims"), [(3, 20), (3, 5), (1, 7)])
def test_support_is_uniform_over_visible_dims(sparsity: int, dims: int) -> None:
    task = make_task("sparse_linear", dims=20, settings={"sparsity": sparsity})
    _, weights = sample_with_parameters(task, batch=10_000, points=1, dims=dims)
    assert_frequencies(weights[:, :dims] != 0, sparsity / dims)


def test_every_support_is_equally_likely() -> None:
    """Not only each coordinate: all C(5, 3) = 10 subsets have the same frequency."""
    _, weights = sample_with_parameters(make_task("sparse_linear", dims=20), 10_000, 1, dims=5)
    support = weights[:, :5] != 0
    hits = [support[:, list(chosen)].all(1) for chosen in combinations(range(5), 3)]
    assert_frequencies(torch.stack(hits, dim=1), 1 / 10)


def test_weights_on_the_support_are_standard_normal() -> None:
    task = make_task("sparse_linear", dims=20)
    _, weights = sample_with_parameters(task, batch=10_000, points=1)
    chosen = weights[weights != 0].view(10_000, 3)
    assert_normal(chosen)
    assert_uncorrelated(chosen[:, 0], chosen[:, 1])
    assert_uncorrelated(chosen[::2], chosen[1::2])


def test_supports_of_neighbouring_prompts_are_independent() -> None:
    _, weights = sample_with_parameters(make_task("sparse_linear", dims=20), 10_000, 1)
    first = (weights != 0).float()
    assert_uncorrelated(first[::2, 0], first[1::2, 0])
    assert_uncorrelated(first[::2, 7], first[1::2, 7])


@pytest.mark.parametrize("sparsity", [2, 3])
def test_variance_of_y_is_the_divisor(sparsity: int) -> None:
    task = make_task("sparse_linear", dims=20, settings={"sparsity": sparsity})
    assert task.divisor == sparsity
    prompts = task.sample(generator(), batch=8000, points=8)
    assert_variance_per_prompt(prompts.ys, task.divisor)


def test_divisor_of_a_support_that_is_cut_short() -> None:
    task = make_task("sparse_linear", dims=2, settings={"sparsity": 3})
    assert task.divisor == 2
    assert_variance_per_prompt(task.sample(generator(), batch=8000, points=8).ys, 2)


def test_y_varies_with_the_effective_sparsity_in_few_visible_dims() -> None:
    """At 5 visible of 20 dims no prompt is constant zero, and at 2 of them two weights are left."""
    task = make_task("sparse_linear", dims=20)
    for dims, effective in ((5, 3), (2, 2)):
        ys = task.sample(generator(), 8000, points=8, dims=dims).ys
        assert torch.all(ys.abs().amax(1) > 0)
        assert_variance_per_prompt(ys, effective)


def test_output_is_the_sum_over_the_support() -> None:
    prompts, weights = sample_with_parameters(make_task("sparse_linear", dims=8), 5, points=4)
    for xs, ys, w in zip(prompts.xs, prompts.ys, weights, strict=True):
        support = w.nonzero().flatten().tolist()
        expected = sum(xs[:, i] * w[i] for i in support)
        torch.testing.assert_close(ys, expected)


def test_lasso_is_among_the_baselines() -> None:
    assert "lasso" in make_task("sparse_linear", dims=8).baselines


@pytest.mark.parametrize(
    ("name", "dims", "settings"),
    [
        ("linear", 6, {}),
        ("noisy_linear", 5, {"noise_std": 0.25}),
        ("noisy_linear", 5, {"noise_std": 0.25, "renormalize": True}),
        ("sparse_linear", 8, {"sparsity": 2}),
        ("sparse_linear", 7, {"sparsity": 3}),
    ],
)
@pytest.mark.parametrize("hidden", [0, 3])
def test_they_are_those_of_the_evaluation(
    name: str, dims: int, settings: dict[str, Any], hidden: int
) -> None:
    """Which are found by other means: in NumPy, by Givens rotations or a singular value
    decomposition."""
    task, visible = make_task(name, dims, settings=settings), dims - hidden
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
    ("task", "why"),
    [
        (make_task("decision_tree", 4), "decision_tree does not know"),
        (make_task("relu_network", 4), "relu_network does not know"),
        (make_task("linear", 4, distinct_prompts=8), "distinct_prompts=8"),
        (make_task("sparse_linear", 40, settings={"sparsity": 10}), "847,660,528 supports"),
        (Cubed(3), "cubed does not know"),
    ],
)
def test_a_task_that_has_none_says_why(task: Any, why: str) -> None:
    assert why in task.no_posterior_mean()


@pytest.mark.parametrize("name", ["linear", "noisy_linear", "sparse_linear"])
def test_others_have_them(name: str) -> None:
    assert make_task(name, 4).no_posterior_mean() == ""
