"""What cannot be is one clear line."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.openml_eval.estimators import LoopedClassifier
from tests.openml_eval.data import halves


def message(estimator: Any, X: Any = None, y: Any = None) -> str:
    """What the fit of an estimator to a small table says no with; one line of ValueError."""
    rows, labels = halves(12, 4)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the callers compare the line)
        estimator.fit(rows if X is None else X, labels if y is None else y)
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"n_loops": 0}, "n_loops must be a whole number at least 1, got 0"),
        ({"device": "gpu"}, "device cannot be 'gpu' on this machine"),
    ],
)
def test_a_parameter(params: dict[str, Any], says: str, runs: Path) -> None:
    assert message(LoopedClassifier(runs / "classifier", **params)).startswith(says)


ROWS, LABELS = halves(12, 4)


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (ROWS, ["only"] * 12, "y has one class, 'only', and at least two are needed"),
        (ROWS, [*range(11), 0], "y has 11 classes, and at most 10 are told apart"),
        (np.ones((12, 1000)), LABELS, "X has 1000 features, and the model of"),
        (np.full((12, 4), np.inf), LABELS, "Input X contains infinity"),
    ],
)
def test_a_table(X: Any, y: Any, says: str, runs: Path) -> None:
    assert message(LoopedClassifier(runs / "classifier"), X, y).startswith(says)


def test_two_rows_of_each_class_are_enough(runs: Path) -> None:
    fitted = LoopedClassifier(runs / "classifier").fit(ROWS[:4], [0, 0, 1, 1])
    assert fitted.predict_proba(ROWS).shape == (12, 2)


def test_a_checkpoint_that_is_damaged(tmp_path: Path, runs: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(runs / "classifier", copy)
    (copy / "checkpoints" / "00000001.safetensors").unlink()
    (file,) = (copy / "checkpoints").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert "is damaged" in message(LoopedClassifier(copy))
    shutil.rmtree(copy / "checkpoints")
    assert message(LoopedClassifier(copy)).endswith("has no checkpoint that can be read")
