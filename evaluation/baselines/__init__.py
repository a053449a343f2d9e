"""Solvers: predictors without a transformer, Bayes-optimal ones among them.

Every solver is `solve(xs, ys, queries)`: from float64 arrays [B, n, d], [B, n] and [B, n, d] to
predictions [B, n]. It predicts query k from the first k pairs only, and zero without examples.

For two classes, ys are -1 and 1, and the predicted class is 1 where the prediction is above 0. A
solver of a text is `solve(task, prompts)`: nats of each next token, [B, n].
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from looplab.conf.mistakes import nearest
from looplab.conf.plugins import Slip, blamed, is_users, registering
from looplab.tasks import Prompts, Task
from looplab.tasks.least_squares import least_squares, ridge

from ..bootstrap import Floats
from .lasso import lasso
from .logistic import logistic
from .network import network
from .ngram import ngram
from .simple import averaging, majority, nearest_neighbours
from .trees import boosted_trees, greedy_tree

Solver = Callable[..., Floats]

_tree_2 = partial(greedy_tree, depth=2)
_tree_4 = partial(greedy_tree, depth=4)
_SOLVERS: dict[str, dict[str, Solver]] = {
    "least_squares": {"least squares": least_squares},
    "ridge": {f"ridge, λ = {λ:g}": partial(ridge, penalty=λ) for λ in (0.01, 0.1, 1, 10)},
    "averaging": {"averaging": averaging},
    "nearest_neighbours": {"3-nearest neighbours": nearest_neighbours},
    "lasso": {f"Lasso, α = {α:g}": partial(lasso, alpha=α) for α in (1e-4, 1e-3, 0.01, 0.1, 1)},
    "greedy_tree_2": {"greedy tree, depth 2": _tree_2},
    "greedy_tree_4": {"greedy tree, depth 4": _tree_4},
    "greedy_tree_2_signs": {"greedy tree, depth 2, of signs": partial(_tree_2, signs=True)},
    "greedy_tree_4_signs": {"greedy tree, depth 4, of signs": partial(_tree_4, signs=True)},
    "boosted_trees": {"boosted trees": boosted_trees},
    "boosted_trees_signs": {"boosted trees, of signs": partial(boosted_trees, signs=True)},
    "network": {"2-layer network, Adam": network},
    "majority": {"majority": majority},
    "logistic": {"logistic regression": logistic},
}
_TEXT_SOLVERS: dict[str, dict[str, Solver]] = {
    f"ngram_{order}": {f"{order}-gram": partial(ngram, order=order)} for order in (1, 3, 5)
}
TRIED = 16  # prompts that a user's solver is tried on
_OWN = {*_SOLVERS, *_TEXT_SOLVERS, "bayes"}
# A minute to an hour for 1280 prompts.
SLOW = ("boosted_trees", "boosted_trees_signs", "network", "logistic")


def solvers(name: str, task: Task) -> dict[str, Solver]:
    """The solvers of a name, by label, for pairs or for a text as the task has them. If there are
    several, the name stands for the one with the least error on this task. Raises ValueError where
    it has none of this name."""
    if task.is_text and name not in _TEXT_SOLVERS:
        raise ValueError("it predicts pairs of numbers, and not a text")
    if task.is_text:
        return _TEXT_SOLVERS[name]
    if name in _TEXT_SOLVERS:
        raise ValueError("it predicts a text")
    if name == "bayes":
        best = _bayes(task)
        if best is None:
            raise ValueError(task.no_posterior_mean())
        return {"Bayes-optimal": best}
    if name not in _SOLVERS:
        raise ValueError(f"there is none of this name{nearest(name, _SOLVERS)}")
    return _SOLVERS[name]


def register_baseline(name: str, label: str = "") -> Callable[[Solver], Solver]:
    """Register the function below as a solver that `evaluation.baselines` takes.

    Parameters
    ----------
    name : str
        For the settings.
    label : str, optional
        In tables and pictures; the name, where not given.

    Raises
    ------
    ConfigError
        For a name that is taken; it says by which file and line.

    Examples
    --------
    >>> from looplab import register_baseline
    >>> @register_baseline("zero")
    ... def zero(xs, ys, queries):  # [B, n, d], [B, n], [B, n, d] to predictions [B, n]
    ...     return 0 * ys
    """

    def add(solve: Solver) -> None:
        _SOLVERS[name] = {label or name.replace("_", " "): _Guarded(solve)}

    return registering("evaluation.baselines", name, name in _OWN, add)


class _Guarded(partial):  # type: ignore[type-arg]
    """A user's solver, whose errors and predictions of another shape are Slips."""

    def __call__(self, xs: Floats, ys: Floats, queries: Floats) -> Floats:
        with blamed(self.func):
            predictions = np.asarray(super().__call__(xs, ys, queries), dtype=np.float64)
        if predictions.shape == ys.shape:
            return predictions
        problem = f"[B, n] = {list(ys.shape)}, and not {list(predictions.shape)}"
        raise Slip(self.func, f"must return predictions {problem}")


def try_solver(solve: Solver, task: Task, prompts: Prompts) -> None:
    """Try a user's solver of pairs on the first of these prompts. Raises Slip for predictions that
    are not finite, differ each time or depend on later outputs, and for changed inputs."""
    if task.is_text or not is_users(solve):
        return
    xs = prompts.xs[:TRIED].double().numpy()
    ys = prompts.ys[:TRIED].double().numpy()
    half = ys.shape[1] // 2
    later = ys.copy()  # the outputs of the second half are others
    # −y for labels ±1, 1 − y for numbers: a solver that reads them predicts otherwise.
    later[:, half:] = (0 if task.classes else 1) - ys[:, half:]
    given = [xs.copy(), ys.copy(), xs.copy()]
    first = solve(*given)
    again = solve(xs.copy(), ys.copy(), xs.copy())
    changed = solve(xs.copy(), later, xs.copy())
    problem = ""
    if not np.isfinite(first).all():
        column = int(np.argmin(np.isfinite(first).all(0)))
        problem = f"predicts values that are not finite, first from {column} pairs"
    elif not all(map(np.array_equal, given, (xs, ys, xs))):
        problem = "changes its inputs in place"
    elif not np.allclose(first, again):
        problem = "predicts otherwise each time: its random numbers need a seed"
    # Query `half` itself has seen none of the changed outputs.
    elif not np.allclose(first[:, : half + 1], changed[:, : half + 1], rtol=1e-6, atol=1e-9):
        problem = "reads the answer: its prediction for query k may depend on the first k ys alone"
    if problem:
        raise Slip(solve, problem)


def optimal(task: Task) -> str | None:
    """The name of the predictor with the least expected error on a task; None if it is unknown or
    intractable."""
    best = _bayes(task)
    if best is None:
        return None
    # Functions equal themselves alone, and so do partials: a task's own ridge has no name here.
    named = (name for name, choices in _SOLVERS.items() if best in choices.values())
    return next(named, "bayes")


def _bayes(task: Task) -> Solver | None:
    """What a task says of its Bayes-optimal predictor; nothing where its class only inherits it."""
    if "bayes" not in vars(type(task)):
        return None
    with blamed(type(task), "bayes"):
        predictor = task.bayes()
    return _Guarded(predictor) if predictor and is_users(predictor) else predictor
