"""The paper's way of probing and its code's: what is seen, what is asked for, how errors count."""

from __future__ import annotations

import pytest
import torch

from looplab.probing.protocols import PAPER, PROTOCOLS, REFERENCE, control_prompts
from looplab.probing.targets import TARGETS, find_target
from looplab.tasks import make_task
from looplab.tasks.linear import Linear
from tests.tasks.statistics import assert_mean, assert_variance_per_prompt, generator

POINTS, DIMS = 41, 20
TOKENS = 2 * POINTS


def test_each_goes_by_its_name() -> None:
    assert PROTOCOLS == {"paper": PAPER, "reference": REFERENCE}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_papers_probe_of_i_pairs_sees_their_tokens_and_the_querys(name: str) -> None:
    target = find_target(name)
    lengths = PAPER.lengths(target, POINTS, DIMS)
    mask = PAPER.tokens_seen(target, lengths, TOKENS)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(lengths), TOKENS)
    for row, i in zip(mask.tolist(), lengths, strict=True):
        seen = 2 * i + (name == "residual")
        assert row == [True] * seen + [False] * (TOKENS - seen)


def test_no_probe_of_the_residual_sees_the_answer() -> None:
    """The query after i pairs is token 2i, its output token 2i + 1: odd as all outputs are."""
    target = find_target("residual")
    mask = PAPER.tokens_seen(target, target.lengths(5), 10)
    for row, i in zip(mask, target.lengths(5), strict=True):
        assert row[2 * i]
        assert not row[2 * i + 1 :].any()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_codes_probes_see_the_whole_prompt(name: str) -> None:
    target = find_target(name)
    lengths = REFERENCE.lengths(target, POINTS, DIMS)
    mask = REFERENCE.tokens_seen(target, lengths, TOKENS)
    assert mask.shape == (len(lengths), TOKENS)
    assert mask.all()


@pytest.mark.parametrize("protocol", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_a_length_beyond_the_prompt_is_refused(protocol: object) -> None:
    assert isinstance(protocol, type(PAPER))
    for name, said in (("gradient", 8), ("residual", 9)):
        with pytest.raises(ValueError, match=f"target {name} of 4 pairs needs {said} tokens"):
            protocol.tokens_seen(find_target(name), range(1, 5), said - 1)
        assert protocol.tokens_seen(find_target(name), range(1, 5), said).shape == (4, said)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_lengths_and_scales(name: str) -> None:
    """The code divides XᵀY by n at every length, and asks for w_OLS up to d pairs."""
    target = find_target(name)
    assert PAPER.lengths(target, POINTS, DIMS) == target.lengths(POINTS)
    last = {"least_squares": 20, "residual": 40}.get(name, 41)
    assert REFERENCE.lengths(target, POINTS, DIMS) == range(1, last + 1)
    few = {"residual": 10}.get(name, 11)
    assert REFERENCE.lengths(target, 11, DIMS) == range(1, few + 1)
    assert PAPER.scale(target, POINTS) == 1
    assert REFERENCE.scale(target, POINTS) == (1 / 41 if name == "gradient" else 1)


def test_errors_are_divided_by_d_once_more_for_the_codes_figure() -> None:
    assert PAPER.error_divisor(DIMS) == 1
    assert REFERENCE.error_divisor(DIMS) == 20


@pytest.mark.parametrize("name", ["gradient", "least_squares", "residual", "weights"])
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_what_is_computed_is_cut_and_scaled(protocol: str, name: str) -> None:
    task, target, by = make_task("linear", 4), find_target(name), PROTOCOLS[protocol]
    prompts, w = task.draw(generator(), 5, 9)
    lengths = by.lengths(target, 9, 4)
    whole = target.compute(prompts, w, task)[:, : len(lengths)]
    found = by.compute(target, prompts, w, task)
    assert found.shape == (5, len(lengths), target.outputs(task))
    torch.testing.assert_close(found, whole * by.scale(target, 9), rtol=1e-10, atol=1e-12)


def test_every_weight_is_one_and_every_output_the_sum_of_the_inputs() -> None:
    prompts, weights = control_prompts(make_task("linear", 5), generator(), batch=7, points=9)
    assert torch.equal(weights, torch.ones(7, 5))
    assert prompts.xs.shape == (7, 9, 5)
    torch.testing.assert_close(prompts.ys, prompts.xs.sum(2), rtol=1e-5, atol=1e-5)


def test_what_probes_are_tested_on_has_random_weights_on_the_same_inputs() -> None:
    """The outputs of the two have the same variance and nothing else in common."""
    task = make_task("linear", 5)
    control, _ = control_prompts(task, generator(), batch=4000, points=8)
    prompts, weights = task.draw(generator(), batch=4000, points=8)
    assert torch.equal(control.xs, prompts.xs)
    assert len(weights.unique()) > 19_000
    assert_variance_per_prompt(control.ys, task.divisor)
    assert_variance_per_prompt(prompts.ys, task.divisor)
    assert_mean((control.ys * prompts.ys).mean(1), 0.0)


@pytest.mark.parametrize("renormalize", [False, True])
def test_a_tasks_noise_stays(renormalize: bool) -> None:
    settings = {"noise_std": 2.0, "renormalize": renormalize}
    task = make_task("noisy_linear", 5, settings=settings)
    prompts, _ = control_prompts(task, generator(), batch=4000, points=8)
    scale = (5 / 9) ** 0.5 if renormalize else 1.0
    assert_mean((prompts.ys / scale - prompts.xs.sum(2)).square(), 4.0)


def test_a_seed_means_one_batch_and_another_seed_another() -> None:
    task = make_task("linear", 4)
    one, again, other = (control_prompts(task, generator(s), 3, 5)[0] for s in (1, 1, 2))
    assert torch.equal(one.xs, again.xs)
    assert torch.equal(one.ys, again.ys)
    assert not torch.any(one.xs == other.xs)


def test_a_finite_set_of_prompts_has_no_part_in_it() -> None:
    endless, finite = (
        control_prompts(make_task("linear", 4, distinct), generator(), 6, 5)[0]
        for distinct in (0, 1)
    )
    assert torch.equal(endless.xs, finite.xs)


def test_linear_functions_of_a_users_own_have_it_too() -> None:
    class Own(Linear):
        pass

    _, weights = control_prompts(Own(dims=3), generator(), 2, 4)
    assert torch.equal(weights, torch.ones(2, 3))


@pytest.mark.parametrize("name", ["sparse_linear", "decision_tree", "relu_network"])
def test_other_functions_have_none(name: str) -> None:
    with pytest.raises(ValueError, match=f"dense linear functions, not of {name}$"):
        control_prompts(make_task(name, 5), generator(), 2, 4)
