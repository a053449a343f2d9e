"""Solvers beside a trained model: scikit-learn's classifiers, fitted to one context.

predict = solve("logistic", xs, ys); predict(queries)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .context import Floats

Classes = NDArray[np.int64]
# Descriptions by short name.
SOLVERS = {
    "logistic": "logistic regression, C = 1",
    "k-NN": "5 nearest neighbours",
    "forest": "random forest of 100 trees",
    "boosting": "gradient boosting, 100 trees of depth 3, rate 0.1",
    "majority": "the majority class of the context",
}


def solve(name: str, xs: Floats, ys: Classes) -> Callable[[Floats], Classes]:
    """Fit a solver to a context's rows xs [k, features] and classes ys [k]; returns its function
    from rows [m, features] to classes [m]. For a context of one class it predicts that class."""
    zeros, ones = np.bincount(ys, minlength=2)
    if name == "majority" or not zeros or not ones:
        # A tie gives class 0.
        return lambda rows: np.full(len(rows), int(ones > zeros), np.int64)
    model = _make(name, len(ys)).fit(xs, ys)
    return lambda rows: model.predict(rows)


def _make(name: str, size: int) -> Any:
    # Imported here, as scoring a model does not need them.
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    if name == "logistic":
        return LogisticRegression(max_iter=1000)
    if name == "k-NN":
        return KNeighborsClassifier(min(5, size))
    if name == "forest":
        return RandomForestClassifier(n_estimators=100, random_state=0)
    assert name == "boosting", name
    return GradientBoostingClassifier(random_state=0)
