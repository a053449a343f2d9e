"""Loops of the estimators: one prediction after each, and each where it has settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conf.schema import EvaluationConfig
from openml_eval import LoopedClassifier, LoopedRegressor

from .data import halves, table
from .runs import B

NEW = table(300, 4, seed=1)[0]


def test_the_regressor_by_loop(runs: Path) -> None:
    X, y = table(40, 4)
    run = runs / "restless-regressor"
    staged = list(LoopedRegressor(run, n_loops=6).fit(X, y).staged_predict(NEW))
    assert len(staged) == 6
    for loops in (1, 4, 6):
        expected = LoopedRegressor(run, n_loops=loops).fit(X, y).predict(NEW)
        np.testing.assert_allclose(staged[loops - 1], expected, rtol=1e-9)
    assert np.abs(staged[0] - staged[-1]).max() > 0.1


def test_the_classifier_by_loop(runs: Path) -> None:
    X, labels = halves(40, 4)
    fitted = LoopedClassifier(runs / "restless-classifier").fit(X, labels + 5)
    probabilities = list(fitted.staged_predict_proba(NEW))
    assert [stage.shape for stage in probabilities] == [(len(NEW), 2)] * B
    np.testing.assert_allclose(probabilities[-1], fitted.predict_proba(NEW), rtol=1e-9)
    for stage, classes in zip(probabilities, fitted.staged_predict(NEW), strict=True):
        np.testing.assert_array_equal(classes, np.where(stage[:, 1] > stage[:, 0], 6, 5))


def test_a_standard_model_is_read_layer_by_layer(runs: Path) -> None:
    X, y = table(100, 10)
    fitted = LoopedRegressor(runs / "regressor", n_loops="auto").fit(X, y)
    assert fitted.n_loops_ == 2
    assert len(list(fitted.staged_predict(X))) == 2


def test_auto_holds_each_prediction_where_it_has_settled(runs: Path) -> None:
    """The first loop that moves it by no more than the tolerance, of three times b."""
    X, y = table(10, 4)
    run = runs / "restless-regressor"
    free = LoopedRegressor(run, n_loops=3 * B).fit(X, y)
    by_loop = np.array(list(free.staged_predict(NEW)))
    tolerance = EvaluationConfig().tolerance * y.std()
    expected = np.empty_like(by_loop)
    halted = []
    for query in range(len(NEW)):
        values = by_loop[:, query]
        settled = np.flatnonzero(np.abs(np.diff(values)) <= tolerance) + 1
        last = settled[0] if len(settled) else 3 * B - 1
        expected[:, query] = values[np.minimum(np.arange(3 * B), last)]
        halted.append(last)
    assert len(set(halted)) > 2
    auto = LoopedRegressor(run, n_loops="auto").fit(X, y)
    np.testing.assert_allclose(list(auto.staged_predict(NEW)), expected, rtol=1e-9)
    np.testing.assert_allclose(auto.predict(NEW), expected[-1], rtol=1e-9)


def test_auto_halts_each_polarity_by_its_logits(runs: Path) -> None:
    """Which one context's two halves show, as if each were a classifier without the other."""
    X, labels = halves(10, 4)
    fitted = LoopedClassifier(runs / "restless-classifier", n_loops="auto").fit(X, labels)
    free = LoopedClassifier(runs / "restless-classifier", n_loops=3 * B).fit(X, labels)
    held, moving = (e._answers(NEW, staged=True) for e in (fitted, free))
    assert held.shape == (3 * B, 2, len(NEW))
    stays = held == held[-1]
    last = stays.argmax(0)  # from where on nothing changes
    assert len(np.unique(last)) > 2
    stages = np.minimum(np.arange(3 * B)[:, None, None], last)
    np.testing.assert_allclose(held, np.take_along_axis(moving, stages, 0), rtol=1e-9)


@pytest.mark.parametrize("loops", [1, "auto"])
def test_one_row_is_enough_to_learn_from_and_to_ask(runs: Path, loops: Any) -> None:
    fitted = LoopedRegressor(runs / "restless-regressor", n_loops=loops).fit([[1.0]], [2.0])
    np.testing.assert_allclose(fitted.predict([[3.0]]), [2.0])
