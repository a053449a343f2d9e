"""Loops of the estimators: one prediction after each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from looplab.openml_eval.estimators import LoopedRegressor
from tests.openml_eval.data import table

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
