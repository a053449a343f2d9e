"""Posterior means as targets: those of an independent computation, and who has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from reloop.evaluation.baselines.bayes import linear_posterior, sparse_posterior
from reloop.tasks import make_task
from reloop.tasks.linear import Linear


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
        wanted = linear_posterior(xs, ys, xs, settings.get("noise_std", 0.0))
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
