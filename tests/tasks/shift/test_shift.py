"""Prompts under shifted inputs: what holds for every shift."""

from __future__ import annotations

import pytest
import torch

from reloop.tasks import SHIFTS, make_task
from tests.tasks.shifted import functions, linear, noisy, plain, sample
from tests.tasks.statistics import assert_mean

SIGNS = ("decision_tree", "halfspaces")  # all that they read
OWN_QUERIES = {"orthogonal_query", "repeated_query", "random_orthants", "opposite_orthants"}


@pytest.fixture(params=sorted(SHIFTS))
def shift(request: pytest.FixtureRequest) -> str:
    """The name of each shift, one after another."""
    return str(request.param)


@pytest.mark.parametrize(("batch", "points", "dims"), [(1, 1, 1), (5, 3, 4), (2, 11, 4)])
def test_shapes_and_types(name: str, shift: str, batch: int, points: int, dims: int) -> None:
    shifted = sample(shift, make_task(name, dims), batch, points)
    points = min(points, dims) if shift == "orthogonal_query" else points
    for pairs in (shifted.prompts, shifted.queries):
        assert pairs.xs.shape == (batch, points, dims)
        assert pairs.ys.shape == (batch, points)
        assert pairs.xs.dtype == pairs.ys.dtype == torch.float32
        assert torch.isfinite(pairs.xs).all()
        assert torch.isfinite(pairs.ys).all()


def test_some_shifts_have_queries_of_their_own(shift: str) -> None:
    shifted = sample(shift, linear())
    assert (shifted.queries is shifted.prompts) == (shift not in OWN_QUERIES)


def test_a_shift_is_a_function_of_the_generator_alone(name: str, shift: str) -> None:
    """And neither reads nor moves the global one."""
    task = make_task(name, dims=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = sample(shift, task)
        torch.manual_seed(2)
        state = torch.get_rng_state()
        again, other = sample(shift, task), sample(shift, task, seed=1)
        assert torch.equal(torch.get_rng_state(), state)
    for first, second in ((one.prompts, again.prompts), (one.queries, again.queries)):
        assert torch.equal(first.xs, second.xs)
        assert torch.equal(first.ys, second.ys)
    assert not torch.any(one.prompts.xs == other.prompts.xs)


@pytest.mark.parametrize("shift", sorted(SHIFTS.keys() - {"noise"}))
def test_outputs_are_those_of_the_prompts_own_function(name: str, shift: str) -> None:
    """For examples and queries alike."""
    settings = {"noise_std": 0} if name == "noisy_linear" else {}
    task = make_task(name, dims=4, settings=settings)
    shifted, parameters = sample(shift, task), functions(task)
    scale = float(shift.removeprefix("scaled_w_")) if shift.startswith("scaled_w") else 1.0
    for pairs in (shifted.prompts, shifted.queries):
        torch.testing.assert_close(pairs.ys, scale * task.outputs(pairs.xs, parameters))


def test_a_finite_set_of_prompts_has_no_part_in_it(shift: str) -> None:
    endless, finite = (sample(shift, make_task("linear", 4, distinct)) for distinct in (0, 1))
    assert torch.equal(endless.prompts.xs, finite.prompts.xs)
    assert torch.equal(endless.queries.ys, finite.queries.ys)


@pytest.mark.parametrize("shift", ["noise", "repeated_query", "scaled_w_2"])
def test_inputs_that_are_not_shifted_are_those_without_a_shift(name: str, shift: str) -> None:
    task = make_task(name, dims=4)
    assert torch.equal(sample(shift, task).prompts.xs, plain(task).xs)


def expected_zero(task_name: str, shift: str) -> float:
    """E y² over the divisor at d = 5: |x|² has mean d under every shift but scaled x."""
    kind, _, scale = shift.rpartition("_")
    signal = 1.0
    if kind == "scaled_w" or (kind == "scaled_x" and task_name not in SIGNS):
        signal = float(scale) ** 2
    if task_name == "noisy_linear" and shift != "noise":
        signal += 4 / 5
    return signal


def test_the_error_of_predicting_zero(name: str, shift: str) -> None:
    task = noisy() if name == "noisy_linear" else make_task(name, dims=5)
    shifted = sample(shift, task, batch=4000, points=5)
    per_prompt = shifted.queries.ys.double().square().mean(1) / task.divisor
    assert shifted.zero == pytest.approx(per_prompt.mean().item(), rel=1e-12)
    if name == "halfspaces" and shift != "noise":  # every y² is the same
        assert shifted.zero == pytest.approx(expected_zero(name, shift), rel=1e-6)
    else:
        assert_mean(per_prompt, expected_zero(name, shift))


def test_labels_tell_shifts_apart() -> None:
    assert len({shift.label for shift in SHIFTS.values()}) == len(SHIFTS) == 15
    assert SHIFTS["scaled_x_0.333"].label == "x · 0.333"
