"""What shipped and imported weights predict: evaluations, estimators on three tables that come with
scikit-learn, and six checkpoints in the reference codes' formats.

python -m tests.golden.predictions freeze       # only with a line in the log
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from looplab import LoopedClassifier, LoopedRegressor
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import evaluated
from looplab.evaluation.load import load_run
from looplab.tasks import Prompts
from looplab.training import import_checkpoint
from looplab.training.assemble import trained_loops
from tests.models.reference_codes import garg_run, leiay_run, openml_run
from tests.models.small import draw_prompts

STORED = Path(__file__).with_name("predictions.json")
_SHIPPED = ("linear", "sparse_linear", "relu_network-standard")
_CONTEXT, _ASKED = 40, 12  # rows of a table


def predictions() -> dict[str, list[float]]:
    """The numbers by name."""
    with TemporaryDirectory() as folder:
        return _evaluated(Path(folder)) | _estimated() | _imported(Path(folder))


def _evaluated(folder: Path) -> dict[str, list[float]]:
    """Mean errors by examples and by loop of models that ship, on 64 prompts, and of their
    solvers."""
    found = {}
    for name in _SHIPPED:
        run = replace(load_run(f"shipped/{name}"), path=folder / name)
        settings = EvaluationConfig(prompts=64, resamples=5, baselines=("least_squares",))
        _, arrays = evaluated(run, replace(settings, shifts=("scaled_x_2",)), "cpu")
        parts = ("model_at_b", "by_loop", "least_squares", "scaled_x_2/model_at_b")
        found[f"evaluation of {name}"] = [
            float(mean) for part in parts for mean in arrays[part].mean(0)
        ]
    return found


def _estimated() -> dict[str, list[float]]:
    """Probabilities of two tables, of their first columns and two classes, values of a third."""
    found = {}
    for name, data in (("breast cancer", load_breast_cancer()), ("wine", load_wine())):
        X, y = data.data[data.target < 2, :8], data.target[data.target < 2]
        order = np.random.RandomState(0).permutation(len(y))
        X, y = X[order], y[order]
        model = LoopedClassifier(device="cpu").fit(X[:_CONTEXT], y[:_CONTEXT])
        asked = model.predict_proba(X[_CONTEXT : _CONTEXT + _ASKED])
        found[f"classifier on {name}"] = asked[:, 1].tolist()
    X, y = load_diabetes(return_X_y=True)
    model = LoopedRegressor(device="cpu").fit(X[:_CONTEXT], y[:_CONTEXT])
    found["regressor on diabetes"] = model.predict(X[_CONTEXT : _CONTEXT + _ASKED]).tolist()
    return found


def _imported(folder: Path) -> dict[str, list[float]]:
    """Predictions after each loop (or of a standard model) for drawn prompts."""
    files = {
        "gpt2_loop": leiay_run(folder / "a"),
        "gpt2_tying": leiay_run(folder / "b", "gpt2_tying"),
        "gpt2": leiay_run(folder / "c", "gpt2"),
        "Garg's": garg_run(folder / "d"),
        "tables, gpt2_loop": openml_run(folder / "e"),
        "tables, gpt2": openml_run(folder / "f", "gpt2"),
    }
    found = {}
    for name, path in files.items():
        run = load_run(import_checkpoint(path, {}, str(folder / "runs")).path)
        drawn = draw_prompts(points=8)
        labels = run.task.labels
        ys = drawn.ys if labels is None else torch.where(drawn.ys > 0, 1.0, labels[0])
        prompts = Prompts(drawn.xs, ys)
        with torch.no_grad():
            numbers = run.model(prompts, trained_loops(run.config))
        found[f"imported {name}"] = numbers.flatten()[:40].tolist()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    text = json.dumps(predictions(), indent=1) + "\n"
    if sys.argv[1:] == ["freeze"]:
        STORED.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
