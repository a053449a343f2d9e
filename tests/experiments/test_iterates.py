"""Which iterate each loop is nearest to: models that are solvers themselves have a known answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, TaskConfig
from looplab.evaluation.baselines.iterates import (
    conjugate_gradients,
    newton,
    normal_equations,
    predictions,
)
from looplab.experiments.iterates import _falling, measure
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task

_SETTINGS = EvaluationConfig(prompts=24, resamples=40, batch_size=10)
_CONFIG = Config(
    task=TaskConfig("linear", dims=4, points=9), loops=LoopsConfig(b=4, T=3), folder="none"
)


class Solver:
    """In a model's place: loop t gives the iterate 2 t of a method, with a little noise."""

    loop = SimpleNamespace(most_loops=None)

    def __init__(self, method: str, noise: float = 0.0) -> None:
        self.method, self.noise = method, noise

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[None, Tensor]]:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        weights = {"conjugate_gradients": conjugate_gradients, "newton": newton}[self.method]
        steps = range(0, 2 * loops + 1, 2)
        noise = self.noise * np.random.default_rng(len(prompts)).standard_normal(ys.shape)
        for values in predictions(xs, weights(normal_equations(xs, ys)), steps):
            yield None, torch.tensor(values + noise)


def solved(method: str, seed: int = 0, noise: float = 0.0, config: Config = _CONFIG) -> Run:
    config = replace(config, seed=seed)
    model = cast(Any, Solver(method, noise))
    return Run(Path(f"{method}-{seed}"), config, build_task(config), model, config.training.steps)


def nearest(result: dict[str, Any], method: str) -> Any:
    (group,) = result["groups"]
    return group["methods"][method]


def test_a_model_that_makes_two_newton_steps_a_loop_is_found_out() -> None:
    result = measure([solved("newton")], _SETTINGS)
    found = nearest(result, "newton")
    assert found["nearest"].mean[:4].tolist() == [2, 4, 6, 8]
    assert found["nearest_at_last"].mean[:4].tolist() == [2, 4, 6, 8]
    assert found["cosine"].mean[:4] == pytest.approx([1, 1, 1, 1])
    assert found["distance"].mean[:4] == pytest.approx([0] * 4, abs=1e-12)
    assert found["per_loop"].mean == pytest.approx(2)
    assert found["acceleration"].mean == pytest.approx(1)
    # Its iterates are none of gradient descent's, of which it takes ever more to come near.
    descent = nearest(result, "gradient_descent")
    assert descent["acceleration"].mean > 2
    assert found["nearer"].low > 0
    assert descent["nearer"].mean == 0


def test_one_that_makes_steps_of_conjugate_gradients_is_nearest_to_these() -> None:
    result = measure([solved("conjugate_gradients", noise=0.01)], _SETTINGS)
    assert nearest(result, "conjugate_gradients")["nearest"].mean[0] == 2
    ours, newtons = (
        nearest(result, name)["cosine"].mean[0] for name in ("conjugate_gradients", "newton")
    )
    assert ours > newtons


def test_seeds_are_one_group_and_widen_the_interval() -> None:
    one = measure([solved("newton", 0, 0.02)], _SETTINGS)
    two = measure([solved("newton", 0, 0.02), solved("newton", 1, 1.0)], _SETTINGS)
    (group,) = two["groups"]
    assert group["methods"]["newton"]["mean_cosine"].seeds == 2

    def width(result: dict[str, Any]) -> float:
        values = nearest(result, "newton")["mean_cosine"]
        return float(values.high - values.low)

    assert width(two) > 2 * width(one)


def test_runs_of_other_settings_are_groups_of_their_own() -> None:
    longer = replace(_CONFIG, loops=LoopsConfig(b=6, T=3))
    result = measure([solved("newton"), solved("newton", config=longer)], _SETTINGS)
    assert [group["label"] for group in result["groups"]] == ["b = 4", "b = 6"]
    assert [group["loops"][-1] for group in result["groups"]] == [12, 18]  # up to 3 b
    names = [panel.name for panel in result["panels"]]
    assert len(set(names)) == len(names) == 6
    for panel in result["panels"]:
        assert all(len(curve.mean) == len(panel.x) for curve in panel.curves)


def test_functions_that_are_not_linear_are_refused() -> None:
    task = TaskConfig("decision_tree", dims=4, points=9, settings={"depth": 2})
    run = solved("newton", config=replace(_CONFIG, task=task))
    with pytest.raises(ConfigError, match="task must be one of dense linear functions"):
        measure([run], _SETTINGS)


def test_a_trained_model_is_measured_as_it_predicts(linear_run: Run) -> None:
    result = measure([linear_run], _SETTINGS)
    (panel,) = (panel for panel in result["panels"] if panel.name.startswith("errors"))
    (curve,) = (curve for curve in panel.curves if curve.name == "model")
    prompts = linear_run.task.sample(torch.Generator().manual_seed(2024), 24, 7)
    expected = (linear_run.model(prompts, 5)[0, :, -1] - prompts.ys[:, -1]).square().mean() / 3
    assert curve.mean[4] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([1.1, 0.9, 0.4, 0.1, 0.012, 0.010, 0.011], (3, 5)),
        ([0.3, 0.1, 0.01], (1, 3)),
        ([1.1, 1.0, 0.9, 0.2], (2, 4)),  # three at least
        ([1.1, 1.2, 1.3], (1, 3)),  # never good
        ([0.5], (1, 1)),
    ],
)
def test_the_loops_in_which_the_error_falls(errors: list[float], expected: tuple[int, int]) -> None:
    assert _falling(np.array(errors), 1.0) == expected
