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
        return lambda xs, ys, queries: 2 * queries.sum(2)


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


def errors_of(task: Task, name: str, prompts: int) -> dict[str, Floats]:
    """Of the solvers that this name stands for."""
    drawn = task.sample(Generator().manual_seed(5), prompts, 9)
    xs, ys = drawn.xs.double().numpy(), drawn.ys.double().numpy()
    return {
        label: np.square(solve(xs, ys, xs) - ys) for label, solve in solvers(name, task).items()
    }


@pytest.mark.parametrize("name", ["linear", "noisy_linear", "sparse_linear", "curves"])
def test_nobody_beats_the_best(name: str) -> None:
    """On the task's own prompts, its own noise and scale: no other solver has a smaller error, at
    any number of examples, by more than four standard errors of the paired difference."""
    task = TASKS[name]
    (best,) = errors_of(task, optimal(task) or "", 3000).values()
    counts = {"least_squares": 3000, "averaging": 3000, "nearest_neighbours": 3000}
    for other, count in (counts | {"ridge": 500, "lasso": 500}).items():
        for label, errors in errors_of(task, other, count).items():
            difference = errors - best[:count]
            standard_error = difference.std(0) / np.sqrt(count)
            assert (difference.mean(0) > -4 * standard_error - 1e-12).all(), label
