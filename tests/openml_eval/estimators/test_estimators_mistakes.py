"""What cannot be is one clear line."""

import shutil
from pathlib import Path
from typing import Any

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
