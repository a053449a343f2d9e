"""Prompts under shifted inputs: what holds for every shift, and what defines each."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.tasks import SHIFTS, Prompts, Shifted, Task, make_task
from looplab.tasks.random_source import FreshNumbers
from tests.tasks.conftest import (
    assert_frequencies,
    assert_mean,
    assert_normal,
    assert_same,
    generator,
)


def sample(shift: str, task: Task, batch: int = 6, points: int = 9, seed: int = 0) -> Shifted:
    """Prompts under the shift of this name."""
    return SHIFTS[shift].sample(task, generator(seed), batch, points)


def plain(task: Task, batch: int = 6, points: int = 9, seed: int = 0) -> Prompts:
    """The prompts without a shift of the same functions and normal inputs."""
    return task.sample(generator(seed), batch, points)


def functions(task: Task, batch: int = 6, seed: int = 0) -> Any:
    """The parameters behind the prompts of a seed: they are drawn first."""
    return task.parameters(FreshNumbers(generator(seed), batch), task.dims)


def linear(dims: int = 5) -> Task:
    return make_task("linear", dims)


def noisy(std: float = 2.0, dims: int = 5) -> Task:
    return make_task("noisy_linear", dims, settings={"noise_std": std})


OWN_QUERIES = {"orthogonal_query", "repeated_query", "random_orthants", "opposite_orthants"}
PLAIN_INPUTS = {
    "noise",
    "repeated_query",
    *(name for name in SHIFTS if name.startswith("scaled_w")),
}
TASKS = (linear(4), noisy(0.0, dims=4), make_task("relu_network", 4))


@pytest.fixture(params=sorted(SHIFTS))
def shift(request: pytest.FixtureRequest) -> str:
    """The name of each shift, one after another."""
    return str(request.param)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_what_holds_for_every_shift(task: Task, shift: str) -> None:
    """It is a function of the generator alone, the global one is neither read nor moved, and
    `distinct_prompts` has no part in it; outputs, of examples and queries alike, are those of the
    prompts' own functions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = sample(shift, task)
        torch.manual_seed(2)
        state = torch.get_rng_state()
        again, other = sample(shift, replace(task, distinct_prompts=1)), sample(shift, task, seed=1)
        assert torch.equal(torch.get_rng_state(), state)
    points = 4 if shift == "orthogonal_query" else 9
    for first, second in ((one.prompts, again.prompts), (one.queries, again.queries)):
        assert (first.xs.shape, first.ys.shape) == ((6, points, 4), (6, points))
        assert first.xs.dtype == first.ys.dtype == torch.float32
        assert_same(first, second)
    assert not torch.any(one.prompts.xs == other.prompts.xs)
    assert (one.queries is one.prompts) == (shift not in OWN_QUERIES)
    if shift != "noise":
        scale = float(shift.removeprefix("scaled_w_")) if shift.startswith("scaled_w") else 1.0
        for pairs in (one.prompts, one.queries):
            expected = scale * task.outputs(pairs.xs, functions(task))
            torch.testing.assert_close(pairs.ys, expected)
    if shift in PLAIN_INPUTS:
        assert torch.equal(one.prompts.xs, plain(task).xs)


def test_the_error_of_predicting_zero(shift: str) -> None:
    """E y² over the divisor at d = 5: |x|² has mean d under every shift but scaled x."""
    kind, _, scale = shift.rpartition("_")
    signal = float(scale) ** 2 if kind in ("scaled_w", "scaled_x") else 1.0
    for task, expected in ((linear(), signal), (noisy(), signal + (shift != "noise") * 4 / 5)):
        shifted = sample(shift, task, batch=4000, points=5)
        per_prompt = shifted.queries.ys.double().square().mean(1) / task.divisor
        assert shifted.zero == pytest.approx(per_prompt.mean().item(), rel=1e-12)
        assert_mean(per_prompt, expected)


def linear_map(xs: Tensor, normal: Tensor) -> Tensor:
    """The one matrix T with xs = normal · T for all prompts at once."""
    left, right = normal.double().flatten(0, 1), xs.double().flatten(0, 1)
    solution: Tensor = torch.linalg.lstsq(left, right).solution
    torch.testing.assert_close(left @ solution, right, atol=1e-5, rtol=0)
    return solution


@pytest.mark.parametrize("dims", [1, 7])
@pytest.mark.parametrize("shift", ["skewed_covariance", "half_subspace"])
def test_one_symmetric_map_of_known_eigenvalues_makes_the_inputs(shift: str, dims: int) -> None:
    task = linear(dims)
    transform = linear_map(sample(shift, task, batch=20).prompts.xs, plain(task, batch=20).xs)
    torch.testing.assert_close(transform, transform.mT, atol=1e-5, rtol=0)
    places = torch.arange(1, dims + 1).double()
    expected = (
        1 / places if shift == "skewed_covariance" else (places <= max(1, dims // 2)).double()
    )
    expected = expected * (dims / expected.square().sum()).sqrt()
    found = torch.linalg.eigvalsh(transform).flip(0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


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


def test_noise_is_standard_normal_and_scaled_back_exactly() -> None:
    """In place of the task's own."""
    for name, divisor in (("linear", 5), ("sparse_linear", 3), ("decision_tree", 1)):
        task = make_task(name, dims=5)
        values = plain(task, batch=400).ys
        ys = sample("noise", task, batch=400).prompts.ys
        noise = ys * ((divisor + 1) / divisor) ** 0.5 - values
        assert_normal(noise)
        assert_mean(noise * values, 0.0)
    one, other = sample("noise", noisy()), sample("noise", linear())
    assert torch.equal(one.prompts.ys, other.prompts.ys)


@pytest.mark.parametrize("scale", [0.333, 0.5, 2.0, 3.0])
def test_scaled_inputs_and_weights_scale_values_and_not_the_noise(scale: float) -> None:
    values, unscaled = plain(linear()).ys, plain(noisy()).ys
    for way, factor in (("x", scale), ("w", 1.0)):
        shifted = sample(f"scaled_{way}_{scale:g}", noisy()).prompts
        expected = unscaled - values
        torch.testing.assert_close(shifted.ys - scale * values, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(shifted.xs, factor * plain(noisy()).xs)


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


@pytest.mark.parametrize(("points", "dims"), [(3, 6), (11, 6)])
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


def test_the_repeated_query_is_an_earlier_pair_each_as_likely() -> None:
    task = noisy()
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


def test_examples_lie_in_a_random_orthant_and_queries_anywhere_or_opposite() -> None:
    task = linear(3)
    anywhere, opposite = (
        sample(f"{kind}_orthants", task, batch=3000) for kind in ("random", "opposite")
    )
    xs, normal = anywhere.prompts.xs, plain(task, batch=3000).xs
    signs = xs[:, :1].sign()
    assert torch.equal(xs, normal.abs() * signs)
    orthant = ((signs[:, 0] > 0) * torch.tensor([1, 2, 4])).sum(1)
    assert_frequencies(orthant[:, None] == torch.arange(8), 1 / 8)
    assert torch.equal(anywhere.queries.xs, normal)
    assert torch.equal(opposite.queries.xs, -opposite.prompts.xs)
    assert torch.equal(opposite.prompts.xs, xs)


def test_a_query_of_its_own_has_noise_of_its_own() -> None:
    shifted = sample("random_orthants", noisy(), batch=500)
    parameters = functions(noisy(), batch=500)
    noises = torch.stack([
        pairs.ys - noisy().outputs(pairs.xs, parameters)
        for pairs in (shifted.prompts, shifted.queries)
    ])  # fmt: skip
    assert_normal(noises, 2.0)
    assert_mean(noises[0] * noises[1], 0.0)
