"""Prompts of several function classes: shares, scales, and that each is a function of its class."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from reloop.conf.mistakes import ConfigError
from reloop.tasks import make_task
from reloop.tasks.mixture import Mixed, Mixture
from tests.tasks.statistics import assert_mean, generator

ALL = ("linear", "sparse_linear", "decision_tree", "relu_network")


def task(*mixed: str, dims: int = 4, **settings: object) -> Mixture:
    values = {"mixed": mixed or ALL, "hidden": 5, "depth": 2, "sparsity": 2} | settings
    return cast(Mixture, make_task("mixture", dims, settings=values))


def test_every_class_has_its_share_and_outputs_of_variance_one() -> None:
    prompts, parameters = task().draw(generator(), batch=40_000, points=5)
    place = cast(Mixed, parameters).place
    for index in range(len(ALL)):
        of_class = place == index
        assert_mean(of_class.float(), 0.25)
        assert_mean(prompts.ys[of_class].square().mean(1), 1.0)


def test_the_prompts_of_one_class_are_those_of_its_task_over_their_standard_deviation() -> None:
    for name in ALL:
        mixture = task(name)
        (part,) = mixture.parts
        prompts, parameters = mixture.draw(generator(), batch=50, points=9)
        (own,) = cast(Mixed, parameters).parameters
        expected = part.outputs(prompts.xs, own) / np.sqrt(part.divisor)
        torch.testing.assert_close(prompts.ys, expected)
    least = task("linear").sample(generator(), batch=20, points=9)
    ys = torch.linalg.lstsq(least.xs[:, :4], least.ys[:, :4, None]).solution
    torch.testing.assert_close((least.xs @ ys).squeeze(2), least.ys, rtol=1e-2, atol=1e-2)


def test_combined_functions_have_a_part_of_every_class_and_the_same_variance() -> None:
    combined = replace(task("linear", "decision_tree"), combined=True)
    prompts, parameters = combined.draw(generator(), batch=40_000, points=3)
    assert_mean(prompts.ys.square().mean(1), 1.0)
    linear, tree = combined.parts
    of_linear, of_tree = cast(Mixed, parameters).parameters
    expected = linear.outputs(prompts.xs, of_linear) / 2 + tree.outputs(prompts.xs, of_tree)
    torch.testing.assert_close(prompts.ys, expected / np.sqrt(2))


def test_hidden_dimensions_do_not_affect_the_outputs() -> None:
    mixture = task()
    prompts, parameters = mixture.draw(generator(), batch=200, points=6, dims=2)
    assert (prompts.xs[:, :, 2:] == 0).all()
    noise = torch.randn(200, 6, 2)
    moved = torch.cat((prompts.xs[:, :, :2], noise), dim=2)
    of_tree = cast(Mixed, parameters).place == ALL.index("decision_tree")
    torch.testing.assert_close(
        mixture.outputs(moved, parameters)[of_tree], prompts.ys[of_tree]
    )  # trees ask visible dimensions alone; the others are given zeros


def test_finitely_many_functions_are_of_all_classes() -> None:
    finite = replace(task(), distinct_functions=12)
    places = cast(Mixed, finite.functions()).place
    assert len(places) == 12
    assert len(set(places.tolist())) == 4
    assert finite.for_evaluation() == task()


@pytest.mark.parametrize(
    ("mixed", "message"),
    [
        (("linear", "noisy_linear"), "mixed cannot be 'noisy_linear'; did you mean 'linear'"),
        (("linear", "linear"), "mixed holds linear twice"),
        ((), "mixed must name a task"),
    ],
)
def test_classes_that_cannot_be_mixed(mixed: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_task("mixture", 4, settings={"mixed": mixed})
