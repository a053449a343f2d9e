"""The two checkpoints that come with the project: what they pass, and what they are worth."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from looplab.openml_eval.estimators import LoopedClassifier, LoopedRegressor

BOTH = [(LoopedClassifier, "classifier", 2), (LoopedRegressor, "regressor", 0)]


@pytest.mark.parametrize(("cls", "name", "classes"), BOTH)
def test_every_check_of_scikit_learn_passes(cls: Any, name: str, classes: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Raises at the first that fails. One order of the columns for four, for speed.
        results = check_estimator(cls(n_orders=1), on_skip=None)
    assert len(results) > 50
    unpassed = [r["check_name"] for r in results if r["status"] != "passed"]
    assert set(unpassed) <= {"check_array_api_input"}  # of other libraries' arrays


def shares(X: Any, y: Any, models: list[Any], rows: int = 40, repeats: int = 8) -> Any:
    """Mean score of each model fitted to `rows` random rows, on 300 others."""
    scores = []
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(X))
        few, rest = order[:rows], order[rows : rows + 300]
        scores.append([model.fit(X[few], y[few]).score(X[rest], y[rest]) for model in models])
    return np.mean(scores, axis=0)


def test_the_classifier_reads_a_real_table() -> None:
    """Not far below logistic regression of the same rows, also when columns are few."""
    X, y = load_breast_cancer(return_X_y=True)
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    for columns in (10, 3):
        ours, theirs = shares(X[:, :columns], y, [LoopedClassifier(device="cpu"), logistic])
        assert ours > max(0.85, theirs - 0.04)


@pytest.mark.parametrize("features", [1, 10])
def test_the_regressor_follows_linear_functions_of_few_features(features: int) -> None:
    random = np.random.default_rng(features)
    X = random.normal(size=(600, features)) * 10.0 ** random.uniform(-2, 2, features)
    y = (X / X.std(0)) @ random.normal(size=features) + 5
    (ours,) = shares(X, y, [LoopedRegressor(device="cpu")])
    assert ours > 0.96
