"""The company that estimators keep: pipelines, searches, pickles, data frames. (scikit-learn's own
checks: test_shipped.py.)"""

from __future__ import annotations

import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from looplab.openml_eval.estimators import LoopedClassifier
from tests.openml_eval.data import halves


@pytest.mark.parametrize("reduce", [SelectKBest(k=10)])
def test_in_a_pipeline_under_cross_validation(reduce: Any) -> None:
    """With more features than the model has dims; whole folds are answered well."""
    X, labels = halves(300, 14)
    X = (X - X.mean(0)) / X.std(0)
    pipeline = make_pipeline(reduce, LoopedClassifier())
    assert cross_val_score(pipeline, X, labels, cv=3).mean() > 0.7


def test_a_fitted_estimator_outlives_its_folder(tmp_path: Path, runs: Path) -> None:
    """Pickled, or written by joblib: it holds its model."""
    X, labels = halves(30, 4)
    fitted = LoopedClassifier(runs / "classifier", n_loops=3).fit(X, labels)
    expected = fitted.predict_proba(X)
    stream = BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    for again in (pickle.loads(pickle.dumps(fitted)), joblib.load(stream)):  # noqa: S301
        np.testing.assert_array_equal(again.predict_proba(X), expected)
