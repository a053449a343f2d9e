"""Which solvers there are, which of several settings is meant, and which one nobody can beat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from torch import Generator

from looplab.conf.schema import Baseline, EvaluationConfig, Shift
from looplab.evaluation.baselines import any_solvers, optimal, solvers
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.measure import Measure, baseline_names, shift_names
from looplab.tasks import SHIFTS, Task, make_task
from looplab.training import train
from tests.conftest import tiny_config

TASKS = {
    "linear": make_task("linear", 3),
    "noisy_linear": make_task("noisy_linear", 3, settings={"noise_std": 0.7, "renormalize": True}),
    "sparse_linear": make_task("sparse_linear", 4, settings={"sparsity": 2}),
    "decision_tree": make_task("decision_tree", 3, settings={"depth": 2}),
    "relu_network": make_task("relu_network", 3, settings={"hidden": 4}),
}
SETTINGS = EvaluationConfig(prompts=64, resamples=20, batch_size=24)


def test_the_settings_name_what_there_is() -> None:
    texts = {name for name in get_args(Baseline) if name.startswith("ngram")}
    for name in set(get_args(Baseline)) - {"bayes"} - texts:
        assert solvers(name, TASKS["linear"])
    for name in texts:
        assert any_solvers(name, make_task("language", 1))
        with pytest.raises(ValueError, match="predicts a text"):
            any_solvers(name, TASKS["linear"])
    with pytest.raises(ValueError, match="predicts pairs of numbers"):
        any_solvers("ridge", make_task("language", 1))
    assert get_args(Shift) == ("all", *SHIFTS)
    assert shift_names(replace(SETTINGS, shifts=("all",))) == tuple(SHIFTS)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_tasks_own_baselines_are_there(name: str) -> None:
    task = TASKS[name]
    names = baseline_names(task, SETTINGS)
    assert set(names) <= set(get_args(Baseline))
    best = optimal(task)
    assert best is None or best in names
    for baseline in names:
        assert solvers(baseline, task)
    assert baseline_names(task, replace(SETTINGS, baselines=("ridge",))) == ("ridge",)


def test_where_the_best_is_known() -> None:
    assert optimal(TASKS["linear"]) == "least_squares"
    assert optimal(TASKS["noisy_linear"]) == optimal(TASKS["sparse_linear"]) == "bayes"
    assert optimal(make_task("sparse_linear", 20)) == "bayes"
    assert optimal(make_task("sparse_linear", 40, settings={"sparsity": 8})) is None
    assert optimal(TASKS["decision_tree"]) is None
    with pytest.raises(ValueError, match=r"DecisionTree.* is not known"):
        solvers("bayes", TASKS["decision_tree"])


def mean_error(task: Task, name: str, prompts: int = 3000) -> Floats:
    drawn = task.sample(Generator().manual_seed(5), prompts, 9)
    xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
    (solve,) = solvers(name, task).values()
    return np.square(solve(xs, ys, xs) - ys)


@pytest.mark.parametrize("name", ["linear", "noisy_linear", "sparse_linear"])
def test_nobody_beats_the_best(name: str) -> None:
    """On the task's own prompts, its own noise and scale: no other solver has a smaller error, at
    any number of examples, by more than four standard errors of the paired difference."""
    task = TASKS[name]
    best = mean_error(task, optimal(task) or "")
    for other in ("least_squares", "averaging", "nearest_neighbours"):
        difference = mean_error(task, other) - best
        standard_error = difference.std(0) / np.sqrt(len(difference))
        assert (difference.mean(0) > -4 * standard_error - 1e-12).all(), other
    for label, solve in (solvers("ridge", task) | solvers("lasso", task)).items():
        drawn = task.sample(Generator().manual_seed(5), 500, 9)
        xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
        difference = np.square(solve(xs, ys, xs) - ys) - best[:500]
        standard_error = difference.std(0) / np.sqrt(500)
        assert (difference.mean(0) > -4 * standard_error - 1e-12).all(), label


def test_the_best_is_named_so_on_its_own_task_alone(tmp_path: Path) -> None:
    """Not on shifted inputs, where something else may be the best."""
    config = tiny_config(tmp_path)
    run = train(replace(config, task=replace(config.task, name="linear", settings={})))
    measure = Measure(run, resolved(run, SETTINGS))
    assert measure.baseline("least_squares")[0] == "least squares (Bayes-optimal)"
    assert measure.baseline("averaging")[0] == "averaging"
    assert measure.baseline("bayes")[0] == "Bayes-optimal"
    shifted = measure.shifted("noise")
    assert measure.baseline("least_squares", shifted)[0] == "least squares"
