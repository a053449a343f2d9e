"""What the estimators predict, against plain prompts and against what must not change it; what
cannot be is one clear line."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from looplab.evaluation.load import load_model, load_run
from looplab.models import Model
from looplab.openml_eval.estimators import LoopedClassifier, LoopedRegressor
from looplab.tasks import Prompts
from looplab.tasks.halfspaces import Halfspaces
from tests.openml_eval.conftest import DIMS, POINTS, B, Floats, halves, table


def standard(values: Floats, of: Floats) -> Floats:
    return (values - of.mean(0)) / of.std(0)


def places(features: int, left: bool) -> slice:
    """Where features stand in a prompt: `left` of them are zeros, or behind them."""
    return slice(DIMS - features, None) if left else slice(features)


def asked_alone(
    model: Model, xs: Floats, ys: Floats, queries: Floats, loops: int, left: bool = False
) -> Floats:
    """Predictions of the plain model in float64, from a prompt for each query."""
    answers = []
    for query in queries:
        padded = np.zeros((1, len(xs) + 1, DIMS))
        padded[0, :, places(xs.shape[1], left)] = np.vstack((xs, query))
        prompt = Prompts(torch.from_numpy(padded), torch.from_numpy(np.append(ys, 0.0)[None]))
        with torch.no_grad():
            answers.append(model.double()(prompt, loops)[0, 0, -1].numpy())
    return np.array(answers)


def order_of(fitted: Any, X: Floats, left: bool = False) -> NDArray[np.intp]:
    """The rows of X in the order that the one context of an estimator has them."""
    xs = fitted._contexts.xs[0, :, places(X.shape[1], left)].numpy()
    return np.abs(xs[:, None] - standard(X, X)[None]).sum(2).argmin(1)


NEW = table(7, 4, seed=1)[0]  # queries


@pytest.mark.parametrize("loops", [None, 9])
def test_the_regressor_asks_as_separate_prompts_would(runs: Path, loops: int | None) -> None:
    run = runs / "regressor"
    X, y = table(POINTS - 1, 4)
    fitted = LoopedRegressor(run, n_orders=1, n_loops=loops).fit(X, y)
    assert fitted.n_loops_ == (loops or B)
    order = order_of(fitted, X)
    assert sorted(order) == list(range(len(X)))
    xs, ys = standard(X, X)[order], DIMS**0.5 * standard(y, y)[order]
    alone = asked_alone(load_run(run).model, xs, ys, standard(NEW, X), loops or B)
    expected = y.mean() + y.std() * alone / DIMS**0.5
    np.testing.assert_allclose(fitted.predict(NEW), expected, rtol=1e-9)


def test_what_a_notebook_has_set_changes_no_prediction(runs: Path) -> None:
    X, y = table(POINTS - 1, 4)
    expected = LoopedRegressor(runs / "regressor").fit(X, y).predict(NEW)
    with torch.inference_mode(), torch.device("meta"):
        fitted = LoopedRegressor(runs / "regressor").fit(X, y)
        np.testing.assert_array_equal(fitted.predict(NEW), expected)
    np.testing.assert_array_equal(fitted.predict(NEW), expected)


@pytest.mark.parametrize(("tokens", "left"), [((-1.0, 1.0), True), ((0.0, 1.0), False)])
def test_the_classifier_asks_as_its_task_does_with_both_polarities(
    tokens: tuple[float, float], left: bool, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the task's own label tokens, and features where the task has them."""
    monkeypatch.setattr(Halfspaces, "labels", tokens)
    monkeypatch.setattr(Halfspaces, "left_padded", left)
    run = runs / "classifier"
    X, labels = halves(POINTS - 1, 4)
    fitted = LoopedClassifier(run, n_orders=1).fit(X, labels)
    order = order_of(fitted, X, left)
    assert sorted(order) == list(range(len(X)))
    xs, model = standard(X, X)[order], load_model(run).model
    logits, swapped = (
        asked_alone(model, xs, np.array(tokens)[classes], standard(NEW, X), B, left)
        for classes in (labels[order], 1 - labels[order])
    )
    probabilities = fitted.predict_proba(NEW)
    as_is, other_way = (softmax(values, axis=1) for values in (logits, swapped))
    np.testing.assert_allclose(probabilities, (as_is + other_way[:, ::-1]) / 2, rtol=1e-9)
    likelier = (probabilities[:, 1] > 0.5).astype(int)
    np.testing.assert_array_equal(fitted.predict(NEW), likelier)


def test_classes_named_the_other_way_round_swap_the_probabilities(runs: Path) -> None:
    X, labels = halves(40, 4)
    estimator = LoopedClassifier(runs / "classifier", n_orders=1)
    names = np.array(["b", "a"])[labels]
    first = estimator.fit(X, labels).predict_proba(NEW)
    np.testing.assert_allclose(estimator.fit(X, names).predict_proba(NEW), first[:, ::-1])
    assert np.ptp(first[:, 1]) > 1e-3


def test_no_query_depends_on_the_others(runs: Path) -> None:
    """Not on their number, their order, nor on what else is asked."""
    X, labels = halves(40, 4)
    many = table(600, 4, seed=2)[0]
    fitted = LoopedClassifier(runs / "classifier", n_orders=1).fit(X, labels)
    together = fitted.predict_proba(many)
    for rows in ([5], [599, 3], [*range(250, 300)]):
        alone = fitted.predict_proba(many[rows])
        np.testing.assert_allclose(alone, together[rows], rtol=0, atol=1e-11)


def test_a_long_training_set_is_averaged_over_contexts(runs: Path) -> None:
    """Of so many rows each, whose predictions are those of estimators fitted to them alone (but
    for the scaling, which all rows have made). One value of y is what is predicted."""
    X, y = table(40, 4)
    run = runs / "regressor"
    fitted = LoopedRegressor(run, n_orders=1, n_contexts=3).fit(X, y)
    assert list(fitted._contexts.xs.shape) == [3, POINTS - 1, DIMS]
    model, each = load_run(run).model, []
    for xs, ys in zip(fitted._contexts.xs, fitted._contexts.ys, strict=True):
        each.append(asked_alone(model, xs.numpy()[:, :4], ys.numpy(), standard(NEW, X), B))
    expected = y.mean() + y.std() * np.mean(each, axis=0) / DIMS**0.5
    np.testing.assert_allclose(fitted.predict(NEW), expected, rtol=1e-9)
    constant = LoopedRegressor(run).fit(X, np.full(40, 0.1))
    np.testing.assert_allclose(constant.predict(NEW), 0.1)


def test_of_many_classes_each_is_asked_against_the_rest(runs: Path) -> None:
    """A permutation of their names is one of the probabilities, which sum to 1."""
    X, y = table(POINTS - 1, 4)
    classes = y.argsort().argsort() % 4
    fitted = LoopedClassifier(runs / "classifier", n_orders=1).fit(X, classes)
    probabilities = fitted.predict_proba(NEW)
    order, model = order_of(fitted, X, left=True), load_model(runs / "classifier").model
    alone = []
    for number in range(4):
        ys = np.where(classes[order] == number, 1.0, -1.0)
        logits = asked_alone(model, standard(X, X)[order], ys, standard(NEW, X), B, left=True)
        alone.append(softmax(logits, axis=1)[:, 1])
    np.testing.assert_allclose(probabilities, np.transpose(alone) / np.sum(alone, 0)[:, None])
    names = np.array(["c", "a", "d", "b"])
    other = LoopedClassifier(runs / "classifier", n_orders=1).fit(X, names[classes])
    renamed = other.predict_proba(NEW)
    np.testing.assert_allclose(renamed[:, [2, 0, 3, 1]], probabilities)
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("missing", [np.nan, None, pandas.NA])
def test_a_missing_value_is_the_mean_of_the_others(missing: Any, runs: Path) -> None:
    """And a column of missing values is one of zeros, whatever a query has there."""
    X, y = table(POINTS - 1, 4)
    known = X.astype(object)
    known[:3, 1], known[:, 3] = missing, missing
    asked, means = NEW.astype(object), NEW.copy()
    asked[::2, 1], means[::2, 1] = missing, X[3:, 1].mean()
    fitted = LoopedRegressor(runs / "regressor").fit(known, y)
    assert ((fitted._contexts.xs[0] == 0).sum(0)[:4] == torch.tensor([0, 3, 0, len(X)])).all()
    expected = fitted.predict(means)
    np.testing.assert_allclose(fitted.predict(asked), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(pandas.DataFrame(asked)), expected, rtol=1e-9)


def test_texts_and_categories_are_their_codes(runs: Path) -> None:
    """In the categories' own order, of texts sorted; one that `fit` has not seen is missing."""
    X, labels = halves(40, 4)
    codes = np.random.default_rng(0).integers(3, size=(40, 2)).astype(float)
    frame = pandas.DataFrame(
        {
            "number": X[:, 0],
            "text": np.array(["a", "b", "c"], dtype=object)[codes[:, 0].astype(int)],
            "size": pandas.Categorical.from_codes(
                codes[:, 1].astype(int), ["small", "mid", "large"]
            ),
            "yes": X[:, 1] > 3,
        }
    )
    plain = np.column_stack((X[:, 0], codes, X[:, 1] > 3))
    estimator = LoopedClassifier(runs / "classifier", n_orders=2)
    expected = estimator.fit(plain, labels).predict_proba(plain)
    fitted = estimator.fit(frame, labels)
    np.testing.assert_allclose(fitted.predict_proba(frame), expected)
    few = frame[3:9].astype({"size": object})  # not all categories, and no order of their own
    np.testing.assert_allclose(fitted.predict_proba(few), expected[3:9])
    unseen, absent = (frame.assign(text=value) for value in ("z", None))
    np.testing.assert_allclose(fitted.predict_proba(unseen), fitted.predict_proba(absent))
    objects = frame.drop(columns="size").to_numpy()
    expected = estimator.fit(plain[:, [0, 1, 3]], labels).predict_proba(plain[:, [0, 1, 3]])
    np.testing.assert_allclose(estimator.fit(objects, labels).predict_proba(objects), expected)


def test_there_is_a_prediction_after_each_loop(runs: Path) -> None:
    X, y = table(40, 4)
    run = runs / "regressor"
    staged = list(LoopedRegressor(run, n_loops=6).fit(X, y).staged_predict(NEW))
    assert len(staged) == 6
    for loops in (1, 4, 6):
        expected = LoopedRegressor(run, n_loops=loops).fit(X, y).predict(NEW)
        np.testing.assert_allclose(staged[loops - 1], expected, rtol=1e-9)
    assert np.abs(staged[0] - staged[-1]).max() > 0.1


ROWS, LABELS = halves(12, 4)


def message(estimator: Any, X: Any = ROWS, y: Any = LABELS) -> str:
    """What the fit of an estimator to a small table says no with; one line of ValueError."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the callers compare the line)
        estimator.fit(X, y)
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("params", "X", "y", "says"),
    [
        ({"n_loops": 0}, ROWS, LABELS, "n_loops must be a whole number at least 1, got 0"),
        ({"device": "gpu"}, ROWS, LABELS, "device cannot be 'gpu' on this machine"),
        ({}, ROWS, ["only"] * 12, "y has one class, 'only', and at least two are needed"),
        ({}, ROWS, [*range(11), 0], "y has 11 classes, and at most 10 are told apart"),
        ({}, np.ones((12, 1000)), LABELS, "X has 1000 features, and the model of"),
        ({}, np.full((12, 4), np.inf), LABELS, "Input X contains infinity"),
    ],
)
def test_a_parameter_or_a_table(
    params: dict[str, Any], X: Any, y: Any, says: str, runs: Path
) -> None:
    assert message(LoopedClassifier(runs / "classifier", **params), X, y).startswith(says)


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
