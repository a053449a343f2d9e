"""`distinct_functions` = N: finitely many functions, and endless prompts of each."""

from __future__ import annotations

import pytest
import torch

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config
from reloop.tasks import Task, make_task
from tests.tasks.statistics import assert_frequencies, assert_normal, generator


def finite(functions: int, name: str = "linear", dims: int = 4) -> Task:
    return make_task(name, dims, distinct_functions=functions)


def test_there_are_n_functions_each_as_likely_and_no_prompt_comes_twice() -> None:
    task = finite(5)
    prompts, weights = task.draw(generator(), batch=4000, points=3)
    different, which = torch.unique(weights, dim=0, return_inverse=True)
    assert len(different) == 5
    assert_frequencies(which[:, None] == torch.arange(5), 1 / 5)
    assert len(prompts.xs.flatten(1).unique(dim=0)) == 4000
    assert_normal(prompts.xs)
    listed = task.functions()
    assert {tuple(row) for row in listed.tolist()} == {tuple(row) for row in different.tolist()}


def test_outputs_are_those_of_the_functions_also_of_nonlinear_ones() -> None:
    task = finite(3, "relu_network")
    prompts, parameters = task.draw(generator(), batch=20, points=6)
    torch.testing.assert_close(prompts.ys, task.outputs(prompts.xs, parameters))


def test_a_larger_world_holds_the_smaller_one_and_seeds_share_it() -> None:
    assert torch.equal(finite(50).functions()[:7], finite(7).functions())
    one, other = (finite(2).draw(generator(seed), 50, 2)[1] for seed in (0, 1))
    assert torch.equal(one.unique(dim=0), other.unique(dim=0))


def test_functions_are_those_of_the_endless_set_and_not_of_numbered_prompts() -> None:
    weights = finite(8000, dims=3).functions()
    assert_normal(weights)
    _, of_prompts = make_task("linear", 3, distinct_prompts=10).draw(generator(), 40, 2)
    assert not torch.isin(of_prompts, weights).any()


def test_fewer_visible_dims_leave_the_function_as_it_is() -> None:
    task = finite(1)
    (some,), (full,) = (task.draw(generator(), 1, 3, dims)[1] for dims in (2, 4))
    assert torch.equal(some[:2], full[:2])


def test_evaluation_has_new_functions() -> None:
    task = finite(3).for_evaluation()
    assert task.distinct_functions == 0
    _, weights = task.draw(generator(), 20, 2)
    assert not torch.isin(weights, finite(3).functions()).any()


def test_both_limits_together_and_tables_are_refused() -> None:
    with pytest.raises(ConfigError, match="has no meaning with distinct_prompts"):
        make_task("linear", 3, distinct_prompts=2, distinct_functions=2)
    for words, message in (
        (("task=linear", "task.distinct_prompts=2"), "has no meaning with task.distinct_prompts"),
        (("task=tables",), "has no meaning with task=tables"),
    ):
        with pytest.raises(ConfigError, match=message):
            Config.of(*words, "task.distinct_functions=2")


def test_posterior_means_are_left_to_the_endless_set() -> None:
    assert finite(2).no_posterior_mean()
    config = Config.of("task=noisy_linear", "task.distinct_functions=2")
    assert config.training.targets == "outputs"
