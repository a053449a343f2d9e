"""Targets against NumPy, prompt by prompt; which runs published probe errors stand beside."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation.bootstrap import Floats
from looplab.probing.probe import published
from looplab.probing.targets import default_targets, find_target
from looplab.tasks import make_task
from tests.tasks.conftest import generator

TASKS = {
    "linear": make_task("linear", 4),
    "noisy_linear": make_task("noisy_linear", 4, settings={"noise_std": 0.5}),
    "sparse_linear": make_task("sparse_linear", 4, settings={"sparsity": 2}),
    "curves": make_task("curves", 4, settings={"noise_std": 0.3, "decay": 2.0}),
    "decision_tree": make_task("decision_tree", 4),
    "relu_network": make_task("relu_network", 4),
}
# The value [outputs] from X [i, d], y [i], the query's (x, y) and the prompt's w.
Slow = Callable[[Floats, Floats, tuple[Floats, float], Floats], Any]


def ols(xs: Floats, ys: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(xs, rcond=1e-6) @ ys, np.float64)


def penalised(xs: Floats, ys: Floats, penalty: float) -> Floats:
    return np.asarray(np.linalg.inv(xs.T @ xs + penalty * np.eye(xs.shape[1])) @ (xs.T @ ys))


def conditioned(xs: Floats, ys: Floats) -> Floats:
    """E[w | y] of jointly normal w and y = Xw + noise: cov(w, y) cov(y, y)⁻¹ y. The weights of
    harmonics 0, 1, 1, 2 have variances in proportion to 1, 1/4, 1/4, 1/9."""
    prior = np.diag([1, 1 / 4, 1 / 4, 1 / 9]) / (1 + 1 / 4 + 1 / 4 + 1 / 9)
    return np.asarray(
        prior @ xs.T @ np.linalg.solve(xs @ prior @ xs.T + 0.09 * np.eye(len(xs)), ys)
    )


SLOW: dict[tuple[str, str], Slow] = {
    ("gradient", "linear"): lambda xs, ys, query, w: sum(
        y * x for x, y in zip(xs, ys, strict=True)
    ),
    ("gradient", "decision_tree"): lambda xs, ys, query, w: xs.T @ ys,
    ("least_squares", "linear"): lambda xs, ys, query, w: ols(xs, ys),
    ("least_squares", "noisy_linear"): lambda xs, ys, query, w: ols(xs, ys),
    ("least_squares", "relu_network"): lambda xs, ys, query, w: ols(xs, ys),
    ("ridge", "linear"): lambda xs, ys, query, w: penalised(xs, ys, 1.0),
    ("ridge", "noisy_linear"): lambda xs, ys, query, w: penalised(xs, ys, 0.25),
    ("ridge", "curves"): lambda xs, ys, query, w: conditioned(xs, ys),
    ("residual", "linear"): lambda xs, ys, query, w: [query[1] - ols(xs, ys) @ query[0]],
    ("residual", "noisy_linear"): lambda xs, ys, query, w: [query[1] - ols(xs, ys) @ query[0]],
    ("support", "sparse_linear"): lambda xs, ys, query, w: [float(value != 0) for value in w],
    ("weights", "linear"): lambda xs, ys, query, w: w,
    ("weights", "sparse_linear"): lambda xs, ys, query, w: w,
}


@pytest.mark.parametrize("points", [3, 4, 9])
@pytest.mark.parametrize(("name", "task"), sorted(SLOW))
def test_every_length_of_every_prompt(name: str, task: str, points: int) -> None:
    """Fewer pairs than dimensions, as many, and more."""
    target, of = find_target(name), TASKS[task]
    prompts, parameters = of.draw(generator(points), 5, points)
    found = target.compute(prompts, parameters, of)
    lengths = range(1, points + 1 - target.asks_query)
    assert found.dtype == torch.float64
    assert found.shape == (5, len(lengths), target.outputs(of))
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    for b in range(5):
        w = parameters[b].double().numpy() if isinstance(parameters, torch.Tensor) else xs[b, 0]
        for row, i in enumerate(lengths):
            query = (xs[b, i], ys[b, i]) if i < points else (xs[b, 0], 0.0)
            slow = SLOW[name, task](xs[b, :i], ys[b, :i], query, w)
            np.testing.assert_allclose(found[b, row].numpy(), slow, rtol=1e-8, atol=1e-9)


def test_default_targets_suit_the_task() -> None:
    assert default_targets(TASKS["linear"]) == ("gradient", "least_squares")
    assert default_targets(TASKS["curves"]) == ("gradient", "ridge")


def test_ridge_weights_of_curves_predict_as_the_exact_predictor() -> None:
    task = TASKS["curves"]
    prompts, parameters = task.draw(generator(0), 5, points=9)
    weights = find_target("ridge").compute(prompts, parameters, task)
    predictions = (weights[:, :-1] * prompts.xs[:, 1:]).sum(2)
    exact = task.posterior_mean(prompts, dims=4)[:, 1:].double()
    torch.testing.assert_close(predictions, exact, rtol=1e-4, atol=1e-4)


LOOPED = Config(task=TaskConfig("linear"), loops=LoopsConfig(20, 15))
STANDARD = replace(LOOPED, model=ModelConfig("standard", n_layer=20, injection="none"))
TARGETS = ["gradient", "least_squares"]


def by_target(config: Config, layers: int = 21) -> dict[str, dict[str, Any]]:
    return {entry["target"]: entry for entry in published(config, layers)}


def test_a_run_under_the_papers_settings_gets_its_models_curves() -> None:
    assert list(by_target(LOOPED)) == list(by_target(STANDARD)) == TARGETS
    entry = by_target(LOOPED)["gradient"]
    assert entry["label"] == "looped, b = 20, T = 15"
    assert by_target(STANDARD)["gradient"]["label"] == "standard, 20 layers"
    assert (entry["steps"], entry["prompts"], entry["training_steps"]) == (100_000, 1280, 500_000)
    assert "2311.12424" in entry["source"]
    # What a standard model does not use has no part in the comparison.
    assert list(by_target(replace(STANDARD, loops=LoopsConfig(7, 3)))) == TARGETS
