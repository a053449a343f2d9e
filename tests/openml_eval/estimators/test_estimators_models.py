"""Every kind of model answers through an estimator as it does through `load_run`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looplab.conf.compose import commands
from looplab.conf.groups import choices
from looplab.evaluation import load_run
from looplab.openml_eval.estimators import LoopedClassifier, LoopedRegressor
from looplab.training.assemble import build_task
from tests.openml_eval.asked import asked_alone, both_polarities, order_of, standard
from tests.openml_eval.data import Floats, halves, table
from tests.openml_eval.runs import DIMS, POINTS, make_model, restless, write_run

TINY = [
    *(f"task.dims={DIMS}", f"task.points={POINTS}", f"model.n_positions={POINTS}"),
    *("curriculum.dims.start=null", "model.n_embd=16", "model.n_head=2"),
]
B, LAYERS = 6, 3  # the loops, and the layers of a standard model, that a run is trained at
LOOPS = {
    "model=linear_attention": [
        *(f"model.n_embd={DIMS}", "model.n_head=1", f"loops.b={B}", "loops.T=2"),
    ],
    "model=standard": [f"model.n_layer={LAYERS}"],
    "model=tied": [f"loops.b={B}"],
}
LOOPED = [f"loops.b={B}", "loops.T=2"]
LANES = [f"loops.T={B}", "loops.grad_loops=all", "model.injection=none", "model.lanes=2"]
CASES = [
    *([f"model={name}"] for name in choices("model")),
    *(["model=looped", f"model.residual_scaling={by}"] for by in ("sqrt", "linear")),
    ["model=unnormed", "model.residual_scaling=linear"],
    ["model=unnormed", "model.residual_scaling=factored", "model.residual_factor=3"],
    ["model=recurrent", "model.residual_scaling=linear", "model.block=llama"],
    ["model=FLT", "model.residual_scaling=sqrt"],
    ["model=standard", "model.residual_scaling=linear"],
    LANES,
    [*LANES, "model.residual_scaling=linear"],
]
NEW = table(7, 4, seed=1)[0]  # queries


def a_run(words: list[str], task: str, folder: Path) -> tuple[Path, int]:
    """A run folder of noise by these words of the command line, and the loops it is trained at."""
    loops = LOOPS.get(words[0], LOOPED)
    given = {word.partition("=")[0]: word for word in (*TINY, *loops, *words)}  # the last counts
    (command,) = commands([f"task={task}", *given.values()])
    write_run(folder / "run", command.config, restless(make_model(command.config), 1))
    return folder / "run", LAYERS if words[0] == "model=standard" else B


def visibly(values: Floats) -> bool:
    """Whether answers differ by far more than rounding."""
    return float(np.std(values)) > 1e-5


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_a_regressor(words: list[str], tmp_path: Path) -> None:
    folder, loops = a_run(words, "linear", tmp_path)
    X, y = table(POINTS - 1, 4)
    fitted = LoopedRegressor(folder).fit(X, y)
    assert fitted.n_loops_ == loops
    order = order_of(fitted, X)
    xs, ys = standard(X, X)[order], DIMS**0.5 * standard(y, y)[order]
    alone = asked_alone(load_run(folder).model, xs, ys, standard(NEW, X), loops)
    expected = y.mean() + y.std() * alone / DIMS**0.5
    np.testing.assert_allclose(fitted.predict(NEW), expected, rtol=1e-9)
    assert visibly(alone)


# A loop of linear attention is for regression alone.
@pytest.mark.parametrize(
    "words", [c for c in CASES if "linear_attention" not in c[0]], ids=" ".join
)
def test_a_classifier(words: list[str], tmp_path: Path) -> None:
    folder, loops = a_run(words, "halfspaces", tmp_path)
    X, labels = halves(POINTS - 1, 4)
    fitted = LoopedClassifier(folder).fit(X, labels)
    run = load_run(folder)
    tokens, left = np.array(build_task(run.config).labels), build_task(run.config).left_padded
    order = order_of(fitted, X, left)
    logits, swapped = (
        asked_alone(
            run.model, standard(X, X)[order], tokens[classes], standard(NEW, X), loops, left
        )
        for classes in (labels[order], 1 - labels[order])
    )
    expected = both_polarities(logits, swapped)
    np.testing.assert_allclose(fitted.predict_proba(NEW)[:, 1], expected, rtol=1e-9)
    assert visibly(expected)
