"""What a plain model answers to each query alone, for estimators to be held against."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.models import Model
from looplab.tasks import Prompts
from tests.openml_eval.data import Floats
from tests.openml_eval.runs import DIMS


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


def both_polarities(logits: Floats, swapped: Floats) -> Floats:
    """Probabilities of class 1 from logits [m, 2] under the labels as they are and swapped."""
    ones = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    zeros = 1 / (1 + np.exp(swapped[:, 0] - swapped[:, 1]))
    return (ones + 1 - zeros) / 2


def order_of(fitted: Any, X: Floats, left: bool = False) -> NDArray[np.intp]:
    """The rows of X in the order that the one context of an estimator has them."""
    xs = fitted._contexts.xs[0, :, places(X.shape[1], left)].numpy()
    return np.abs(xs[:, None] - standard(X, X)[None]).sum(2).argmin(1)
