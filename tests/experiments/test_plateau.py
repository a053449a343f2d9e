"""The Bayes error over all prefixes, by formula and by the solver; who has left the plateau."""

from __future__ import annotations

import numpy as np
import pytest

from looplab.evaluation.baselines import solvers
from looplab.evaluation.errors import evaluation_prompts
from looplab.experiments.plateau import LEAVES, bayes_error, has_left_plateau, highest
from looplab.tasks import make_task


def test_bayes_errors_by_hand() -> None:
    assert bayes_error(3, 7) == pytest.approx((1 + 2 / 3 + 1 / 3) / 7)
    assert bayes_error(4, 2) == pytest.approx((1 + 3 / 4) / 2)  # the prompt ends before it is known
    assert bayes_error(1, 5) == pytest.approx(1 / 5)


@pytest.mark.parametrize(("dims", "points"), [(2, 6), (5, 4)])
def test_the_bayes_error_is_the_best_solver_s(dims: int, points: int) -> None:
    task = make_task("linear", dims, 0, {})
    prompts = evaluation_prompts(task, 20_000, points, seed=7)
    (solve,) = solvers("bayes", task).values()
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    errors = np.square(solve(xs, ys, xs) - ys).mean(1) / task.divisor
    spread = errors.std() / np.sqrt(len(errors))
    assert abs(errors.mean() - bayes_error(dims, points)) < 4 * spread
    assert spread < 0.02 * bayes_error(dims, points)


def test_off_the_plateau_is_part_of_the_way_to_the_best() -> None:
    limit = 0.25 + LEAVES * 0.75
    assert highest(0.25, 1.0) == pytest.approx(limit)
    assert has_left_plateau(limit - 1e-9, 0.25, 1.0)
    assert not has_left_plateau(limit + 1e-9, 0.25, 1.0)
    assert not has_left_plateau(1.0, 0.25, 1.0)
    assert has_left_plateau(0.25, 0.25, 1.0)
