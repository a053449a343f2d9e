"""What a user would predict without a transformer: each solver on every prefix of every prompt.

predictions = BASELINES["least_squares"](xs, ys)                     # [prompts, n], float64
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from tqdm import tqdm

Floats = NDArray[np.float64]
Baseline = Callable[[Floats, Floats], Floats]


def least_squares(xs: Floats, ys: Floats) -> Floats:
    """The minimum-norm solution of each prefix; zero without examples."""
    predictions = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        weights = np.linalg.pinv(xs[:, :k]) @ ys[:, :k, None]
        predictions[:, k] = np.einsum("bd,bd->b", xs[:, k], weights[:, :, 0])
    return predictions


def averaging(xs: Floats, ys: Floats) -> Floats:
    """The weights mean(y·x) of each prefix; zero without examples."""
    examples = np.arange(1, ys.shape[1])
    sums = np.cumsum(xs[:, :-1] * ys[:, :-1, None], axis=1)
    predictions = np.zeros_like(ys)
    predictions[:, 1:] = np.einsum("bnd,bnd->bn", xs[:, 1:], sums) / examples
    return predictions


def nearest_neighbours(xs: Floats, ys: Floats, neighbours: int = 3) -> Floats:
    """The mean output of the 3 nearest examples of each prefix, or of all while there are fewer;
    zero without examples."""
    predictions = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        distances = np.square(xs[:, :k] - xs[:, k : k + 1]).sum(-1)
        count = min(neighbours, k)
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        predictions[:, k] = np.take_along_axis(ys[:, :k], nearest, axis=1).mean(1)
    return predictions


def lasso(xs: Floats, ys: Floats, alpha: float = 0.01) -> Floats:
    """Scikit-learn's Lasso without intercept on each prefix; zero without examples."""
    solver = Lasso(alpha=alpha, fit_intercept=False, max_iter=100_000)
    predictions = np.zeros_like(ys)
    with warnings.catch_warnings():
        # On the few prefixes that reach max_iter the solution is as good as the reference's.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for prompt in tqdm(range(len(ys)), desc="lasso", disable=None, leave=False):
            for k in range(1, ys.shape[1]):
                solver.fit(xs[prompt, :k], ys[prompt, :k])
                predictions[prompt, k] = xs[prompt, k] @ solver.coef_
    return predictions


BASELINES: dict[str, Baseline] = {
    "least_squares": least_squares,
    "averaging": averaging,
    "nearest_neighbours": nearest_neighbours,
    "lasso": lasso,
}
LABELS = {
    "least_squares": "least squares",
    "averaging": "averaging",
    "nearest_neighbours": "3-nearest neighbours",
    "lasso": "Lasso, α = 0.01",
}
