"""Trained models as scikit-learn estimators: a fit is a context, a prediction is a query.

LoopedClassifier("runs/NAME").fit(X, y).predict_proba(X_new)
LoopedRegressor(checkpoint="runs/NAME", n_loops="auto").fit(X, y).predict(X_new)
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.halting import Halting
from reloop.tasks import Prompts, Task
from reloop.training.assemble import build_task
from reloop.training.device import place_exactly

from .answers import LoopSettings, answer_queries
from .context import Floats, Scaling, context_rows, model_inputs
from .weights import Trained, read_model, shipped


class _Looped(BaseEstimator):  # type: ignore[misc]
    """What both estimators are: a checkpoint, its loops, and contexts from the training set."""

    _classes: ClassVar[int]
    _shipped: ClassVar[str]

    def __init__(
        self,
        checkpoint: str | PathLike[str] | None = None,
        n_loops: int | Literal["auto"] | None = None,
        n_contexts: int = 4,
        max_context: int | None = None,
        random_state: int | RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        self.checkpoint = checkpoint
        self.n_loops = n_loops
        self.n_contexts = n_contexts
        self.max_context = max_context
        self.random_state = random_state
        self.device = device

    @classmethod
    def from_checkpoint(cls, path: str | PathLike[str], **params: Any) -> Self:
        """The estimator of a run folder, or of one checkpoint (.safetensors) in it."""
        return cls(checkpoint=path, **params)

    def _load(self, features: int) -> Trained:
        """The checkpoint, checked against parameters and the number of features."""
        path = shipped(self._shipped) if self.checkpoint is None else self.checkpoint
        trained = read_model(path, self._classes)
        dims = trained.model.spec.dims
        if features > dims:
            raise ValueError(
                f"X has {features} features, and the model of {trained.path} reads at most {dims}: "
                f"choose or combine them first, as make_pipeline(SelectKBest(k={dims}), "
                f"{type(self).__name__}()) or PCA({dims}) does"
            )
        return trained

    def _read_as(self, trained: Trained, divisor: float) -> LoopSettings:
        if self.n_loops is None:
            return LoopSettings(trained.loops)
        if self.n_loops == "auto":
            rule = EvaluationConfig()
            halting = Halting(rule.halt_on, rule.tolerance, trained.loops)
            return LoopSettings(trained.loops, halting, divisor)
        most = trained.model.loop.most_loops
        loops = _count("n_loops", self.n_loops, most, 'also None or "auto"')
        return LoopSettings(loops)

    def _keep(
        self,
        trained: Trained,
        task: Task,
        X: Floats,
        ys: Floats,
        labels: NDArray[np.int64] | None = None,
    ) -> None:
        """Hold the model and its contexts of rows X [n, features] with y tokens ys [n]; `labels`
        [n] are shared out evenly over the contexts."""
        spec = trained.model.spec
        contexts = _count("n_contexts", self.n_contexts)
        size = trained.context
        if self.max_context is not None:
            size = _count("max_context", self.max_context, spec.n_positions - 1)
        reading = self._read_as(trained, task.divisor)
        device = place_exactly(self.device).device
        if device.type == "mps":
            raise ConfigError("device", "cannot be mps: predictions are made in float64")
        random = check_random_state(self.random_state)
        rows = context_rows(random, len(X), size, contexts, labels)
        self._scaling = Scaling.of(X)
        self._left_padded = task.left_padded
        xs = model_inputs(self._scaling.apply(X), spec.dims, task.left_padded)
        self._reading = reading
        self._model = trained.model.to(device, torch.float64)
        self._contexts = Prompts(torch.from_numpy(xs[rows]), torch.from_numpy(ys[rows])).to(device)
        self.n_loops_ = reading.loops

    def _answers(self, X: ArrayLike, staged: bool = False) -> Floats:
        """Of rows X [m, features] after the last loop [1, contexts, m] or, staged, after each."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        xs = model_inputs(self._scaling.apply(rows), self._model.spec.dims, self._left_padded)
        queries = torch.from_numpy(xs).to(self._contexts.xs.device)
        return answer_queries(self._model, self._contexts, queries, self._reading, staged)


class LoopedClassifier(ClassifierMixin, _Looped):  # type: ignore[misc]
    """In-context classification of two classes by a trained model.

    `fit` scales the features (mean 0, variance 1; zeros in place of those that the model could read
    beside them) and keeps the training set as the model's context; nothing is trained. What is
    longer than a context is answered from `n_contexts` of `max_context` random rows each, whose
    probabilities are averaged. So are those with the labels as they are and swapped: naming the
    classes the other way round swaps the probabilities, no more.

    checkpoint: a run folder or a .safetensors in one; None: the classifier that comes with the
        project, in openml_eval/checkpoints/, trained on halfspaces alone.
    n_loops: loops or layers; None: as in training; "auto": each prediction until it settles, by
        the rule of evaluation.loops=auto, and no further than in training.
    max_context: None: as many rows as in training.
    random_state: chooses the contexts' rows and their order.
    device: auto, cpu or cuda.

    Fitted: `classes_`, `n_features_in_`, `feature_names_in_`, and `n_loops_`, the most loops made.
    """

    _classes, _shipped = 2, "classifier"
    classes_: NDArray[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep X [n, features] and the labels y [n] as context. ValueError, one line, for what
        cannot be: the checkpoint, a parameter, too many features, more than two classes."""
        rows, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        self.classes_, labels = np.unique(y, return_inverse=True)
        trained = self._load(rows.shape[1])
        task = build_task(trained.config)
        self._keep(trained, task, rows, np.array(task.labels)[labels], labels)
        xs, ys = self._contexts.xs, self._contexts.ys
        self._contexts = Prompts(torch.cat((xs, xs)), torch.cat((ys, sum(task.labels) - ys)))
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities [m, classes] of the classes at rows X [m, features]."""
        return self._probabilities(self._answers(X)[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class [m] at rows X [m, features]."""
        return self._likelier(self.predict_proba(X))

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[Floats]:
        """The probabilities after each loop, the last being `predict_proba`'s."""
        for answers in self._answers(X, staged=True):
            yield self._probabilities(answers)

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """The likelier class after each loop, the last being `predict`'s."""
        for probabilities in self.staged_predict_proba(X):
            yield self._likelier(probabilities)

    def _probabilities(self, answers: Floats) -> Floats:
        """From those of label 1 in all contexts, [2 · contexts, m], where it is class 1 and, in
        the second half, class 0."""
        if len(self.classes_) == 1:
            return np.ones((answers.shape[1], 1))
        as_it_is, swapped = np.split(answers, 2)
        ones = (as_it_is + (1 - swapped)).mean(0) / 2
        return np.stack((1 - ones, ones), axis=1)

    def _likelier(self, probabilities: Floats) -> NDArray[Any]:
        return self.classes_[probabilities.argmax(1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class LoopedRegressor(RegressorMixin, _Looped):  # type: ignore[misc]
    """In-context regression by a trained model.

    As `LoopedClassifier`, with y scaled to mean 0 and the variance that it had in training, and
    predictions, averaged over the contexts, scaled back. `checkpoint` None: the regressor that
    comes with the project, trained on noisy linear functions.

    Fitted: `n_features_in_`, `feature_names_in_`, and `n_loops_`, the most loops made.
    """

    _classes, _shipped = 0, "regressor"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep X [n, features] and y [n] as context. ValueError, one line, for what cannot be: the
        checkpoint, a parameter, too many features."""
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        targets: Floats = np.asarray(y, dtype=np.float64)
        trained = self._load(rows.shape[1])
        task = build_task(trained.config)
        self._spread = task.divisor**0.5
        self._target_scaling = Scaling.of(targets)
        ys = self._target_scaling.apply(targets) * self._spread
        self._keep(trained, task, rows, ys)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predictions [m] at rows X [m, features]."""
        return self._outputs(self._answers(X)[0])

    def staged_predict(self, X: ArrayLike) -> Iterator[Floats]:
        """The predictions after each loop, the last being `predict`'s."""
        for answers in self._answers(X, staged=True):
            yield self._outputs(answers)

    def _outputs(self, answers: Floats) -> Floats:
        """From the answers in all contexts, [contexts, m]."""
        return self._target_scaling.undo(answers.mean(0) / self._spread)


def _count(name: str, value: Any, most: int | None = None, other: str = "") -> int:
    """A parameter that counts something, at least 1; ConfigError for anything else."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        to = "at least 1" if most is None else f"from 1 to {most}"
        also = f" ({other})" if other else ""
        raise ConfigError(name, f"must be a whole number {to}{also}, got {value!r}")
    return int(value)
