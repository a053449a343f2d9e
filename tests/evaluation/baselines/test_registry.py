"""Where the best solver is known, and that nobody can beat it."""

import numpy as np
import pytest
from torch import Generator

from looplab.evaluation.baselines import optimal, solvers
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import Task, make_task

TASKS = {
    "linear": make_task("linear", 3),
    "noisy_linear": make_task("noisy_linear", 3, settings={"noise_std": 0.7, "renormalize": True}),
    "curves": make_task("curves", 5),
    "sparse_linear": make_task("sparse_linear", 4, settings={"sparsity": 2}),
    "decision_tree": make_task("decision_tree", 3, settings={"depth": 2}),
    "relu_network": make_task("relu_network", 3, settings={"hidden": 4}),
}


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


@pytest.mark.parametrize("name", ["linear", "noisy_linear", "sparse_linear", "curves"])
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
