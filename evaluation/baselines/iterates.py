"""The iterates of gradient descent, conjugate gradients and Newton's method for least squares, on
every prefix of every prompt.

equations = normal_equations(xs, ys)                      # of float64 arrays [B, n, d] and [B, n]
steps = predictions(queries, conjugate_gradients(equations), (0, 5, 10))     # [3, B, n]
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..bootstrap import Floats

_STEPS = np.geomspace(0.02, 2, 400)  # over the mean of the largest eigenvalues: 1.2 % apart


class Equations(NamedTuple):
    """(XᵀX + λI) w = Xᵀy of the first k pairs of a prompt, at index k: `matrix` [B, n, d, d],
    `right` [B, n, d]."""

    matrix: Floats
    right: Floats


def normal_equations(xs: Floats, ys: Floats, penalty: float = 0.0) -> Equations:
    """The equations of least squares, or of ridge regression with this penalty λ; those at index k
    are of the k pairs before query k."""
    before = np.zeros((len(xs), 1, xs.shape[2]))
    # A pair of zeros in front, so that the sum up to index k is of the k pairs before query k.
    inputs = np.concatenate([before, xs[:, :-1]], axis=1)
    outputs = np.concatenate([before[:, :, 0], ys[:, :-1]], axis=1)
    matrix = (inputs[..., :, None] * inputs[..., None, :]).cumsum(1)
    right = (inputs * outputs[..., None]).cumsum(1)
    return Equations(matrix + penalty * np.eye(xs.shape[2]), right)


def gradient_descent(equations: Equations, rate: float) -> Iterator[Floats]:
    """w ← w − rate · (A w − b) from 0, without end: the weights [B, n, d] from step 0 on. A rate
    that is too high diverges."""
    weights = np.zeros_like(equations.right)
    while True:
        yield weights
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = _times(equations.matrix, weights) - equations.right
            weights = weights - rate * gradient


def conjugate_gradients(equations: Equations) -> Iterator[Floats]:
    """Hestenes and Stiefel's method from 0, without end: the weights [B, n, d] from step 0 on.

    A prefix that is solved to rounding stays as it is; with fewer pairs than dimensions that is the
    solution of minimum norm."""
    weights = np.zeros_like(equations.right)
    residual = equations.right
    direction = residual
    size = np.square(residual).sum(-1, keepdims=True)
    # ‖r‖ ≤ eps · ‖b‖, in squares.
    least = np.finfo(np.float64).eps ** 2 * size
    while True:
        yield weights
        image = _times(equations.matrix, direction)
        curvature = (direction * image).sum(-1, keepdims=True)
        active = (size > least) & (curvature > 0)
        # α = r·r / p·Ap, w ← w + α p, r ← r − α Ap, β = r·r (new) / r·r (old), p ← r + β p.
        length = np.where(active, size / np.where(active, curvature, 1), 0)
        weights = weights + length * direction
        residual = residual - length * image
        new_size = np.square(residual).sum(-1, keepdims=True)
        ratio = np.where(active, new_size / np.where(active, size, 1), 0)
        direction, size = residual + ratio * direction, new_size


def newton(equations: Equations) -> Iterator[Floats]:
    """w = M b with Newton's (Schulz') iterates of the inverse, M ← 2 M − M A M, without end: the
    weights [B, n, d] from step 0 on.

    M starts as A/‖A‖², within the bound 2/‖A‖² of convergence (arXiv 2310.17086 starts from a
    multiple of A too). A singular A is inverted on its range. In closed form, since rounding errors
    of the iteration itself double outside that range: along an eigenvector with eigenvalue a the
    residual 1 − a²/‖A‖² of M is squared at each step."""
    values, vectors = np.linalg.eigh(equations.matrix)
    right = _times(vectors.swapaxes(-1, -2), equations.right)
    # `eigh` sorts eigenvalues upwards: the last one is ‖A‖.
    ratio = values / np.where(values[..., -1:] > 0, values[..., -1:], 1)
    positive = ratio > ratio.shape[-1] * np.finfo(np.float64).eps
    solution = np.where(positive, right / np.where(positive, values, 1), 0)
    with np.errstate(divide="ignore"):
        log_residual = np.log1p(-np.square(np.where(positive, ratio, 0)))
    power = 1.0  # 2 to the number of steps
    while True:
        # 1 − (1 − ratio²)^(2^t) of the solution by eigenvector; expm1 keeps it exact near 0.
        yield _times(vectors, -np.expm1(power * log_residual) * solution)
        power *= 2


def predictions(queries: Floats, weights: Iterator[Floats], steps: Collection[int]) -> Floats:
    """The predictions for queries [B, n, d] of the iterates of these rising numbers, [steps, B,
    n]."""
    wanted = (w for step, w in enumerate(islice(weights, max(steps) + 1)) if step in steps)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([(queries * w).sum(-1) for w in wanted])


def best_rate(equations: Equations, queries: Floats, ys: Floats, steps: int) -> float:
    """The one rate for all prompts whose gradient descent has, after so many steps, the least mean
    squared error at the last query; queries [B, n, d] and their outputs ys [B, n].

    In closed form for each rate: after k steps the error along an eigenvector of A with eigenvalue
    a is (1 − rate · a)ᵏ of what it was."""
    # Everything in the basis of the last query's eigenvectors, [B, d].
    values, vectors = np.linalg.eigh(equations.matrix[:, -1])
    right = np.einsum("bij,bi->bj", vectors, equations.right[:, -1])
    query = np.einsum("bij,bi->bj", vectors, queries[:, -1])
    positive = values > 1e-12 * values[:, -1:]
    solution = np.where(positive, right / np.where(positive, values, 1), 0)
    rates = _STEPS / values[:, -1].mean()
    errors = []
    for rate in rates:
        reached = 1 - (1 - rate * values) ** steps  # the share of the solution
        predictions = (reached * solution * query).sum(1)
        errors.append(np.square(predictions - ys[:, -1]).mean())
    return float(rates[int(np.argmin(errors))])


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[..., None])[..., 0], np.float64)
