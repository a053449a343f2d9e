"""Trained models as scikit-learn estimators: a fit is a context, a prediction is a query; and the
two that ship with the project.

LoopedClassifier("runs/NAME").fit(X, y).predict_proba(X_new)
LoopedRegressor(checkpoint="runs/NAME", n_loops=30).fit(X, y).predict(X_new)
"""

import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from looplab.conf.mistakes import ConfigError, RunError
from looplab.evaluation.load import LoadedModel, load_model
from looplab.tasks import Prompts, Task
from looplab.training.assemble import build_task, trained_loops
from looplab.training.device import place_exactly, torch_defaults

from .context import Floats, Scaling, answered, context_rows, model_inputs
from .settings import ORDERS

_MOST_CLASSES = 10
SHIPPED = Path(__file__).parent / "checkpoints"
_KINDS = {0: "a regressor", 2: "a classifier of two classes"}


class _Looped(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators: a checkpoint, its loops, and contexts from the training set."""

    _shipped: ClassVar[str]
    _classes: ClassVar[int]  # of its models; 0: a regression

    def __init__(
        self,
        checkpoint: str | PathLike[str] | None = None,
        n_loops: int | None = None,
        n_contexts: int = 4,
        n_orders: int = ORDERS,
        random_state: int | RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        # As given: scikit-learn's `clone` compares arguments with attributes; `fit` checks them.
        self.checkpoint = checkpoint
        self.n_loops = n_loops
        self.n_contexts = n_contexts
        self.n_orders = n_orders
        self.random_state = random_state
        self.device = device

    def _load(self, features: int) -> tuple[LoadedModel, Task]:
        """The checkpoint and its task, with a UserWarning for a damaged or altered file that has a
        replacement; ValueError, one line, for a path without one, a model of another kind, and one
        that reads fewer than `features` features."""
        path = SHIPPED / self._shipped if self.checkpoint is None else self.checkpoint
        try:
            checkpoint = load_model(path, warnings.warn)
        except RunError as error:
            raise ConfigError("checkpoint", str(error)) from None
        dims = checkpoint.model.spec.dims
        classes = checkpoint.model.spec.classes
        if classes != self._classes:
            kind = _KINDS.get(classes, f"a classifier of {classes} classes")
            needed = f"{path} is {kind}, and {_KINDS[self._classes]} is needed"
            raise ConfigError("checkpoint", needed)
        checkpoint.model.requires_grad_(False)
        if features > dims:
            raise ValueError(
                f"X has {features} features, and the model of {checkpoint.path} reads at most "
                f"{dims}: choose or combine them first, as make_pipeline(SelectKBest(k={dims}), "
                f"{type(self).__name__}()) or PCA({dims}) does"
            )
        return checkpoint, build_task(checkpoint.config)

    def _set_contexts(
        self,
        checkpoint: LoadedModel,
        task: Task,
        X: Floats,
        ys: Floats,
        labels: NDArray[np.int64] | None = None,
    ) -> None:
        """Store the model and its contexts, from rows X [n, features] with y tokens ys [n]; every
        context has the same frequencies of `labels` [n]."""
        spec = checkpoint.model.spec
        contexts = _count("n_contexts", self.n_contexts)
        self.n_loops_ = trained_loops(checkpoint.config)
        if self.n_loops is not None:
            self.n_loops_ = _count("n_loops", self.n_loops, checkpoint.model.loop.most_loops)
        device = place_exactly(self.device).device
        random = check_random_state(self.random_state)
        size = min(checkpoint.config.task.points, spec.n_positions) - 1  # as in training
        rows = context_rows(random, len(X), size, contexts, labels)
        self._scaling = Scaling.of(X)
        self._left_padded = task.left_padded
        self._clip = task.clip
        # Where the features begin among the model's dimensions (`model_inputs`).
        first = spec.dims - X.shape[1] if task.left_padded else 0
        features = np.arange(first, first + X.shape[1])
        # The features as given, then in random orders; other dimensions keep their places.
        self._orders = [np.arange(spec.dims) for _ in range(_count("n_orders", self.n_orders))]
        for order in self._orders[1:]:
            order[features] = random.permutation(features)
        xs = self._inputs(X, spec.dims)
        self._model = checkpoint.model.to(device, torch.float64)
        # [contexts, size, dims] and [contexts, size].
        self._contexts = Prompts(torch.from_numpy(xs[rows]), torch.from_numpy(ys[rows])).to(device)

    def _validated(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """X, and y where it is given, as scikit-learn's `validate_data` has them: X in float64, NaN
        where a value is missing. Texts and categories become codes, by the categories of `fit`."""
        is_objects = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2
        is_fit = checks.get("reset", True)
        if is_fit:
            self._categories = dict[Any, Any]()
        if is_objects or hasattr(X, "iloc"):
            import pandas

            from .columns import as_numbers, categories_of

            frame = pandas.DataFrame(X)
            if is_fit:
                self._categories = categories_of(frame)
            X = as_numbers(frame, self._categories)
        return validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", **checks)

    def _inputs(self, rows: Floats, dims: int) -> Floats:
        """The model's inputs [n, dims] of rows [n, features]."""
        return model_inputs(self._scaling.apply(rows), dims, self._left_padded, self._clip)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class or value of rows.

        Parameters
        ----------
        X : array of shape [m, features]

        Returns
        -------
        array of shape [m]

        Raises
        ------
        ValueError
            For other features than those of `fit`, and infinite values.
        """
        return self._outputs(self._answers(X)[0])

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Predict as `predict` does, after each loop in turn; its predictions are the last.

        Parameters
        ----------
        X : array of shape [m, features]

        Yields
        ------
        array of shape [m]
        """
        for answers in self._answers(X, staged=True):
            yield self._outputs(answers)

    def _outputs(self, answers: Floats) -> NDArray[Any]:
        """Predictions [m] from the answers in all contexts, [contexts, m]."""
        raise NotImplementedError

    @torch_defaults()
    def _answers(self, X: ArrayLike, staged: bool = False) -> Floats:
        """Answers at rows X [m, features], [1, contexts, m] after the last loop or, `staged`,
        [loops, contexts, m] after each; the mean over the orders of the columns. An answer is the
        prediction or, of a classifier, the probability of class 1.

        Everything is on one device and in float64: other rows change an answer only by rounding.
        """
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        xs = self._inputs(rows, self._model.spec.dims)
        queries = torch.from_numpy(xs).to(self._contexts.xs.device)
        window = self.n_loops_ if staged else 1
        answers: list[Floats] = []
        for order in self._orders:
            contexts = Prompts(self._contexts.xs[..., order], self._contexts.ys)
            # The same queries beside each context, [contexts, m, dims], without a copy.
            asked = queries[:, order].expand(len(contexts), -1, -1)
            predictions = answered(self._model, contexts, asked, self.n_loops_, window)
            if self._model.spec.classes:
                predictions = predictions.softmax(-1)[..., 1]
            answers.append(predictions.cpu().numpy())
        return answers[0] if len(answers) == 1 else np.mean(answers, axis=0)


class LoopedClassifier(ClassifierMixin, _Looped):  # type: ignore[misc]
    """In-context classification of two to ten classes by a trained model of two.

    `fit` scales the features (mean 0, variance 1; padded with zeros to the model's dimensions) and
    stores the training set as the model's context; nothing is trained. For a training set longer
    than a context, probabilities are averaged over `n_contexts` contexts of random rows.

    A context has the label of one class against the rest, and there is one for each class, at the
    cost of one: exchanging classes exchanges their probabilities. Those of two classes are the mean
    over both contexts; those of more are divided by their sum, so that a model that is calibrated
    for two need not be for ten.

    A missing value (NaN, None, NA) is the mean of its column. Texts and categories, as columns of a
    DataFrame or in an array of objects, become codes in their own order or sorted. The model reads
    these as numbers; a category that `fit` has not seen is missing. Dates are not read, nor more
    features than the model has dimensions, nor infinite values.

    Parameters
    ----------
    checkpoint : str or path, optional
        A run folder; None: the classifier that comes with the project, in openml_eval/checkpoints/,
        trained on random tables of up to 20 columns and 256 rows of context (`task=tables_prior`).
    n_loops : int, optional
        Loops or layers; None: as in training.
    n_contexts : int
        Contexts of random rows, where the training set is longer than one.
    n_orders : int
        Orders of the columns that answers are averaged over, the given one and random others, each
        at the cost of one. The model does not treat columns alike: four in place of one raise the
        accuracy from .771 to .774 (57 tables, 40 rows of context).
    random_state : int, RandomState or None
        Chooses the contexts' rows and their order, and the columns' orders.
    device : str
        auto, cpu or cuda.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As scikit-learn has them.
    n_loops_ : int
        The number of loops.

    References
    ----------
    arXiv 2311.12424, Table 2 and its appendix: a table's rows as a prompt.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from looplab import LoopedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> LoopedClassifier().fit(X[:40, :10], y[:40]).predict_proba(X[40:43, :10]).shape
    (3, 2)
    """

    _shipped = "classifier"
    _classes = 2
    classes_: NDArray[Any]

    @torch_defaults()
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store a training set as the context.

        Parameters
        ----------
        X : array of shape [n, features]
            Or a DataFrame with texts and categories; NaN, None and NA are missing.
        y : array of shape [n]
            The labels, of two to ten classes.

        Returns
        -------
        LoopedClassifier

        Raises
        ------
        ValueError
            For an invalid checkpoint or parameter, too many features, infinite values, and one or
            more than ten classes.
        """
        rows, y = self._validated(X, y)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        classes = len(self.classes_)
        if classes == 1:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has one class, {only!r}, and at least two are needed")
        if classes > _MOST_CLASSES:
            raise ValueError(f"y has {classes} classes, and at most {_MOST_CLASSES} are told apart")
        checkpoint, task = self._load(rows.shape[1])
        # All contexts with class 0 against the rest, then all with class 1, …
        self._set_contexts(checkpoint, task, rows, labels.astype(np.float64), labels)
        xs = self._contexts.xs
        given = self._contexts.ys
        other, one = task.labels
        ys = [torch.where(given == label, one, other).to(xs) for label in range(classes)]
        self._contexts = Prompts(xs.repeat(classes, 1, 1), torch.cat(ys))
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array of shape [m, features]

        Returns
        -------
        array of shape [m, classes]
            In the order of `classes_`.
        """
        return self._probabilities(self._answers(X)[0])

    def _probabilities(self, answers: Floats) -> Floats:
        """Probabilities [m, classes] from each class's own against the rest in all contexts,
        [classes · contexts, m]."""
        # [classes, contexts, m], mean over the contexts, as [m, classes].
        alone = answers.reshape(len(self.classes_), -1, answers.shape[1]).mean(1).T
        if len(self.classes_) == 2:  # the mean of what both contexts say of each
            return (alone + 1 - alone[:, ::-1]) / 2
        return alone / alone.sum(1, keepdims=True)

    def _outputs(self, answers: Floats) -> NDArray[Any]:
        return self.classes_[self._probabilities(answers).argmax(1)]


class LoopedRegressor(RegressorMixin, _Looped):  # type: ignore[misc]
    """In-context regression by a trained model.

    It treats features, missing values and categories as `LoopedClassifier`. y is scaled to mean 0
    and its variance in training; predictions are averaged over the contexts and scaled back.
    `checkpoint` None: the regressor that comes with the project, trained on random tables of up to
    20 columns and 40 rows of context (`task=tables_prior_regression`).

    Examples
    --------
    >>> import numpy as np
    >>> from looplab import LoopedRegressor
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> LoopedRegressor().fit(X, X.sum(1)).predict(X[:2]).shape
    (2,)
    """

    _shipped = "regressor"
    _classes = 0

    @torch_defaults()
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store a training set as the context.

        Parameters
        ----------
        X : array of shape [n, features]
        y : array of shape [n]

        Returns
        -------
        LoopedRegressor

        Raises
        ------
        ValueError
            For an invalid checkpoint or parameter, too many features, or infinite values.
        """
        rows, y = self._validated(X, y, y_numeric=True)
        targets: Floats = np.asarray(y, dtype=np.float64)
        checkpoint, task = self._load(rows.shape[1])
        self._target_std = task.divisor**0.5
        self._target_scaling = Scaling.of(targets)
        # y of the variance that training has shown the model: the task's divisor.
        ys = self._target_scaling.apply(targets) * self._target_std
        self._set_contexts(checkpoint, task, rows, ys)
        return self

    def _outputs(self, answers: Floats) -> Floats:
        return self._target_scaling.undo(answers.mean(0) / self._target_std)


def _count(name: str, value: Any, most: int | None = None) -> int:
    """The value of a parameter that is a count; ConfigError for one below 1 or above `most`."""
    if not isinstance(value, int | np.integer) or value < 1 or (most is not None and value > most):
        bounds = "at least 1" if most is None else f"from 1 to {most}"
        raise ConfigError(name, f"must be a whole number {bounds}, got {value!r}")
    return int(value)
