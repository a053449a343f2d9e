"""The control: prompts whose weights are all 1, beside the task's own."""

from __future__ import annotations

import pytest
import torch

from reloop.probing.prompts import control_prompts
from reloop.tasks import make_task
from reloop.tasks.linear import Linear
from tests.tasks.statistics import assert_mean, assert_variance_per_prompt, generator


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
