"""What defines each shift with queries of its own: orthogonal, repeated, in other orthants."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from reloop.tasks import SHIFTS, Prompts, Task
from reloop.tasks.random_source import FreshNumbers
from tests.tasks.shifted import functions, linear, noisy, plain, sample
from tests.tasks.statistics import assert_frequencies, assert_mean, assert_normal, generator


def projected(xs: Tensor) -> Tensor:
    """What projecting off the inputs before it leaves of each input [B, n, d], in float64, its
    norm restored."""
    xs = xs.double()
    rests = [xs[:, 0]]
    for k in range(1, xs.shape[1]):
        prefix = xs[:, :k]
        rests.append(xs[:, k] - (torch.linalg.pinv(prefix) @ prefix @ xs[:, k, :, None])[:, :, 0])
    rest = torch.stack(rests, dim=1)
    return rest * (xs.norm(dim=2) / rest.norm(dim=2))[:, :, None]


@pytest.mark.parametrize(("points", "dims"), [(3, 6), (6, 6), (11, 6), (20, 20)])
def test_the_orthogonal_query_is_what_projecting_leaves(points: int, dims: int) -> None:
    shifted = sample("orthogonal_query", linear(dims), points=points)
    xs, queries = shifted.prompts.xs, shifted.queries.xs
    assert torch.equal(xs, plain(linear(dims), points=points).xs[:, :dims])
    torch.testing.assert_close(queries.double(), projected(xs), atol=1e-5, rtol=0)
    inner = queries @ xs.mT  # query k with example j < k
    assert inner.tril(-1).abs().max() < 1e-5
    torch.testing.assert_close(queries.norm(dim=2), xs.norm(dim=2), atol=1e-5, rtol=0)


def test_the_orthogonal_query_is_exact_for_examples_close_to_each_other() -> None:
    """Ten thousand times closer than they are long: float32 would miss it by far."""
    source = generator()
    near = torch.randn(8, 1, 20, generator=source) + 1e-4 * torch.randn(8, 9, 20, generator=source)
    queries = SHIFTS["orthogonal_query"].queries(
        near, pairs(near), pairs, FreshNumbers(source, batch=8)
    )
    torch.testing.assert_close(queries.xs.double(), projected(near), atol=1e-5, rtol=0)


def pairs(xs: Tensor) -> Prompts:
    """Inputs with outputs of zero."""
    return Prompts(xs, torch.zeros(xs.shape[:2]))


@pytest.mark.parametrize("task", [linear(), noisy()], ids=["linear", "noisy"])
def test_the_repeated_query_is_an_earlier_pair_each_as_likely(task: Task) -> None:
    shifted = sample("repeated_query", task, batch=3000, points=6)
    prompts, queries = shifted.prompts, shifted.queries
    assert torch.equal(prompts.ys, plain(task, batch=3000, points=6).ys)
    same = (queries.xs[:, :, None] == prompts.xs[:, None]).all(3)  # [B, query k, example j]
    assert (same.sum(2) == 1).all()
    assert torch.equal(queries.ys, (same * prompts.ys[:, None]).sum(2))
    assert same[:, 0, 0].all()
    for k in range(1, 6):
        assert not same[:, k, k:].any()
        assert_frequencies(same[:, k, :k], 1 / k)
    assert_frequencies(same[:, 2, :2] & same[:, 3, :2], 1 / 6)  # queries are independent


def test_orthants_of_the_examples_are_random_and_their_lengths_kept() -> None:
    task = linear(3)
    xs = sample("random_orthants", task, batch=3000).prompts.xs
    signs = xs[:, :1].sign()
    assert torch.equal(xs, xs.abs() * signs)
    assert torch.equal(xs.abs(), plain(task, batch=3000).xs.abs())
    orthant = ((signs[:, 0] > 0) * torch.tensor([1, 2, 4])).sum(1)
    assert_frequencies(orthant[:, None] == torch.arange(8), 1 / 8)


def test_queries_lie_anywhere_or_in_the_opposite_orthant() -> None:
    task = linear(3)
    anywhere, opposite = (sample(f"{kind}_orthants", task) for kind in ("random", "opposite"))
    assert torch.equal(anywhere.queries.xs, plain(task).xs)
    assert torch.equal(opposite.queries.xs, -opposite.prompts.xs)
    assert torch.equal(opposite.prompts.xs, anywhere.prompts.xs)


def test_a_query_of_its_own_has_noise_of_its_own() -> None:
    shifted = sample("random_orthants", noisy(), batch=500)
    parameters = functions(noisy(), batch=500)
    noises = [
        pairs.ys - noisy().outputs(pairs.xs, parameters)
        for pairs in (shifted.prompts, shifted.queries)
    ]
    for noise in noises:
        assert_normal(noise, 2.0)
    assert_mean(noises[0] * noises[1], 0.0)
