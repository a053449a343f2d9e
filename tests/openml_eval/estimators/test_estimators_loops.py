"""Loops of the estimators: one prediction after each, and each where it has settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import load_run
from looplab.evaluation.errors import ErrorSettings as EvaluationReading
from looplab.evaluation.errors import Halting, model_errors
from looplab.openml_eval import estimators
from looplab.openml_eval.estimators import LoopedClassifier, LoopedRegressor
from looplab.tasks import Prompts
from tests.openml_eval.asked import order_of, standard
from tests.openml_eval.data import halves, table
from tests.openml_eval.runs import DIMS, POINTS, B

NEW = table(300, 4, seed=1)[0]


def test_the_regressor_by_loop(runs: Path) -> None:
    X, y = table(40, 4)
    run = runs / "regressor"
    staged = list(LoopedRegressor(run, n_loops=6).fit(X, y).staged_predict(NEW))
    assert len(staged) == 6
    for loops in (1, 4, 6):
        expected = LoopedRegressor(run, n_loops=loops).fit(X, y).predict(NEW)
        np.testing.assert_allclose(staged[loops - 1], expected, rtol=1e-9)
    assert np.abs(staged[0] - staged[-1]).max() > 0.1


def test_the_classifier_by_loop(runs: Path) -> None:
    X, labels = halves(40, 4)
    fitted = LoopedClassifier(runs / "classifier").fit(X, labels + 5)
    probabilities = list(fitted.staged_predict_proba(NEW))
    assert [stage.shape for stage in probabilities] == [(len(NEW), 2)] * B
    np.testing.assert_allclose(probabilities[-1], fitted.predict_proba(NEW), rtol=1e-9)
    for stage, classes in zip(probabilities, fitted.staged_predict(NEW), strict=True):
        np.testing.assert_array_equal(classes, np.where(stage[:, 1] > stage[:, 0], 6, 5))


def test_a_standard_model_is_read_layer_by_layer(runs: Path) -> None:
    X, y = table(100, 4)
    fitted = LoopedRegressor(runs / "standard", n_loops="auto").fit(X, y)
    assert fitted.n_loops_ == 2
    assert len(list(fitted.staged_predict(X))) == 2


@pytest.fixture
def settling(monkeypatch: pytest.MonkeyPatch) -> EvaluationConfig:
    """A tolerance at which models of noise settle in some of their loops, as trained ones do."""
    rule = EvaluationConfig(tolerance=0.3)
    monkeypatch.setattr(estimators, "EvaluationConfig", lambda: rule)
    return rule


def test_auto_halts_by_the_rule_of_an_evaluation(runs: Path, settling: EvaluationConfig) -> None:
    """Asked the prompts of an evaluation, it makes as many loops for each and comes to the same."""
    run = load_run(runs / "regressor")
    X, y = table(POINTS - 1, 4)
    fitted = LoopedRegressor(run.path, n_loops="auto").fit(X, y)
    rule = Halting(settling.halt_on, settling.tolerance, B)
    order = order_of(fitted, X)
    xs = np.zeros((len(NEW), POINTS, DIMS))
    xs[:, :-1, :4], xs[:, -1, :4] = standard(X, X)[order], standard(NEW, X)
    ys = np.zeros((len(NEW), POINTS))
    ys[:, :-1] = DIMS**0.5 * standard(y, y)[order]
    prompts = Prompts(torch.from_numpy(xs), torch.from_numpy(ys))
    read = model_errors(run.model.double(), run.task, prompts, EvaluationReading((B,), B, rule))
    used = read["loops_used"][:, -1].astype(int)
    assert len(set(used)) > 2
    free = LoopedRegressor(run.path, n_loops=B).fit(X, y)
    by_loop = np.array(list(free.staged_predict(NEW)))
    stages = np.minimum(np.arange(B)[:, None], used - 1)
    expected = np.take_along_axis(by_loop, stages, 0)
    np.testing.assert_allclose(list(fitted.staged_predict(NEW)), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(NEW), expected[-1], rtol=1e-9)
    # The evaluation's error is that of the same prediction: y is 0 there.
    answers = fitted._answers(NEW)[0, 0]
    np.testing.assert_allclose(read["halted"][:, -1], answers**2 / DIMS, rtol=1e-4)


def test_auto_makes_no_loop_once_all_have_settled(runs: Path, settling: EvaluationConfig) -> None:
    X, y = table(10, 4)
    fitted = LoopedRegressor(runs / "regressor", n_loops="auto").fit(X, y)
    read: list[object] = []  # the read-in and what each loop gives
    fitted._model.read_out.register_forward_hook(lambda *given: read.append(given))
    for query in range(40):
        read.clear()
        staged = list(fitted.staged_predict(NEW[[query]]))
        assert len(staged) == fitted.n_loops_ == B
        if len(read) <= B:
            break
    made = len(read) - 1
    assert 2 <= made < B
    assert {float(stage[0]) for stage in staged[made - 1 :]} == {float(staged[-1][0])}
    assert staged[0][0] != staged[-1][0]


def test_auto_halts_each_polarity_by_itself(runs: Path, settling: EvaluationConfig) -> None:
    """Which one context's two halves show, as if each were a classifier without the other."""
    X, labels = halves(10, 4)
    fitted = LoopedClassifier(runs / "classifier", n_loops="auto").fit(X, labels)
    free = LoopedClassifier(runs / "classifier", n_loops=B).fit(X, labels)
    held, moving = (e._answers(NEW, staged=True) for e in (fitted, free))
    assert held.shape == (B, 2, len(NEW))
    last = (held == held[-1]).argmax(0)  # from where on nothing changes
    assert len(np.unique(last)) > 2
    assert (last[0] != last[1]).any()
    stages = np.minimum(np.arange(B)[:, None, None], last)
    np.testing.assert_allclose(held, np.take_along_axis(moving, stages, 0), rtol=1e-9)


@pytest.mark.parametrize("loops", [1, "auto"])
def test_one_row_is_enough_to_learn_from_and_to_ask(runs: Path, loops: Any) -> None:
    fitted = LoopedRegressor(runs / "regressor", n_loops=loops).fit([[1.0]], [2.0])
    np.testing.assert_allclose(fitted.predict([[3.0]]), [2.0])
