"""Estimators outlive their run. (scikit-learn's own checks: test_shipped.py.)"""

import pickle
from io import BytesIO
from pathlib import Path

import joblib
import numpy as np

from looplab.openml_eval.estimators import LoopedClassifier
from tests.openml_eval.data import halves


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
