"""Sparse linear functions: how large the support is, where it lies and what stands on it."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from reloop.tasks import make_task
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import (
    assert_frequencies,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
)


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
