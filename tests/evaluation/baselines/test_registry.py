"""Where the best solver is known, and that nobody can beat it."""

from dataclasses import dataclass

import numpy as np
import pytest
from torch import Generator, Tensor

from looplab.conf.checks.config import WITH_BAYES
from looplab.conf.files import choices
from looplab.evaluation.baselines import optimal, solvers
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import Task, make_task
from looplab.tasks.linear import Linear
from looplab.tasks.task import Predictor

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
    with pytest.raises(ValueError, match="task decision_tree does not know its posterior mean"):
        solvers("bayes", TASKS["decision_tree"])


@dataclass(frozen=True)
class Doubled(Linear):
    """y = 2 w·x with w = (1, …, 1): known without examples."""

    def parameters(self, random: object, dims: int) -> Tensor:
        raise NotImplementedError

    def bayes(self) -> Predictor | None:
        def predict(xs: Floats, ys: Floats, queries: Floats) -> Floats:
            return 2 * queries.sum(2)

        return predict


@dataclass(frozen=True)
class Tripled(Doubled):
    """Has other functions, so that it does not inherit the predictor."""


def test_a_task_of_ones_own_says_its_best_predictor_and_hands_it_to_no_subclass() -> None:
    assert optimal(Doubled(3)) == "bayes"
    (solve,) = solvers("bayes", Doubled(3)).values()
    xs = np.arange(12.0).reshape(1, 4, 3)
    np.testing.assert_array_equal(solve(xs, 0 * xs[:, :, 0], xs), [[6, 24, 42, 60]])
    assert optimal(Tripled(3)) is None


def test_the_settings_know_which_tasks_have_a_predictor() -> None:
    for name in choices("task"):
        if name not in ("language", "tables"):  # which want data
            assert (optimal(make_task(name, 4)) is not None) == (name in WITH_BAYES), name


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
