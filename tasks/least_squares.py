"""Least squares and ridge regression on every prefix of every prompt, in float64.

Each predictor takes inputs xs [B, n, d], outputs ys [B, n] and queries [B, n, d]. It predicts
queries[b, k] from the first k pairs of prompt b, and zero without pairs. `…_weights` return the
weights of the predictions, [B, n, d]: those at k - 1 are from the first k pairs.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

_EPS = torch.finfo(torch.float32).eps  # inputs are float32 numbers, stored as float64


def least_squares(xs: Floats, ys: Floats, queries: Floats) -> Floats:
    """Predictions with the weights of `least_squares_weights`."""
    return _predictions(queries, least_squares_weights(xs[:, :-1], ys[:, :-1]))


def least_squares_weights(xs: Floats, ys: Floats) -> Floats:
    """The least-squares solution of minimum norm.

    Singular values up to max(k, d)·2⁻²³ of the largest count as zero, as in LAPACK's float32
    solvers (Yang et al.'s baseline). Up to d pairs the prefixes of a prompt share one QR
    factorisation; beyond, each pair updates the factor. A prefix has its own SVD only if these
    cannot rule out a singular value under the cut-off.
    """
    dims = xs.shape[2]
    inputs, outputs = torch.tensor(xs), torch.tensor(ys)
    solution, regular = _few_pairs(inputs[:, :dims], outputs[:, :dims])
    if inputs.shape[1] > dims:
        more, more_regular = _many_pairs(inputs, outputs)
        solution = torch.cat((solution, more), dim=1)
        regular = torch.cat((regular, more_regular), dim=1)
    weights = solution.contiguous().numpy()
    # Of prompts and prefixes that may be singular, each prefix of all these prompts at once.
    for k in 1 + np.flatnonzero(~regular.all(0).numpy()):
        b = np.flatnonzero(~regular[:, k - 1].numpy())
        # w = V (Uᵀ y / σ): a singular value under the cut-off is divided by ∞, and so left out.
        left, values, right = np.linalg.svd(xs[b, :k], full_matrices=False)
        above = values > max(k, dims) * _EPS * values[:, :1]
        coefficients = np.einsum("bkr,bk->br", left, ys[b, :k]) / np.where(above, values, np.inf)
        weights[b, k - 1] = np.einsum("brd,br->bd", right, coefficients)
    return weights


def ridge(xs: Floats, ys: Floats, queries: Floats, penalty: float) -> Floats:
    """Predictions with the weights of `ridge_weights`."""
    return _predictions(queries, ridge_weights(xs[:, :-1], ys[:, :-1], penalty))


def ridge_weights(xs: Floats, ys: Floats, penalty: float) -> Floats:
    """The weights that minimise ‖y − Xw‖² + penalty·‖w‖²; those of least squares at penalty 0.

    With penalty = σ² and w ~ N(0, I), y = w·x + N(0, σ²), they are the posterior's mean.
    """
    if penalty == 0:
        return least_squares_weights(xs, ys)
    dims = xs.shape[2]
    weights = np.zeros(xs.shape)
    pairs = torch.tensor(np.concatenate([xs, ys[:, :, None]], axis=2))
    # The penalty acts as d more pairs: unit vectors times sqrt(penalty), with outputs 0.
    factor = torch.zeros(len(xs), dims, dims + 1, dtype=torch.float64)
    factor.diagonal(dim1=1, dim2=2).fill_(math.sqrt(penalty))
    for k in range(xs.shape[1]):
        factor = _with_row(factor, pairs[:, k])
        # R w = z for the factor (R, z) [B, d, d + 1] of the pairs so far.
        solution = torch.linalg.solve_triangular(factor[:, :, :-1], factor[:, :, -1:], upper=True)
        weights[:, k] = solution[:, :, 0].numpy()
    return weights


def _predictions(queries: Floats, weights: Floats) -> Floats:
    """Predictions [B, n] for queries [B, n, d], of which the first has no weights [B, n - 1, d]."""
    predictions = np.zeros(queries.shape[:2])
    # Query k meets the weights of the first k pairs, which stand at k - 1; query 0 predicts zero.
    predictions[:, 1:] = np.einsum("bnd,bnd->bn", queries[:, 1:], weights)
    return predictions


def _few_pairs(xs: Tensor, ys: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [B, m, d] from the first 1 … m <= d pairs, and whether each prefix surely has no
    singular value under the cut-off.

    With Xᵀ = QR the minimum-norm solution is w = Qz, Rᵀz = y; the factors of a prefix are the
    leading parts of those of all pairs.
    """
    # Columns are the pairs: Q [B, d, m], R [B, m, m].
    basis, factor = torch.linalg.qr(xs.mT)
    unit = torch.eye(xs.shape[1], dtype=xs.dtype)
    inverse = torch.linalg.solve_triangular(factor, unit, upper=True)
    # Squared Frobenius norms of the leading k rows of X, and columns of R⁻¹.
    norms = xs.square().sum(2).cumsum(1)
    inverse_norms = inverse.square().sum(1).cumsum(1)
    regular = _surely_regular(norms, inverse_norms, xs.shape[2])
    coefficients = torch.linalg.solve_triangular(factor.mT, ys[:, :, None], upper=False)
    # The terms of a singular pair may be infinite, and affect only prefixes that are not regular.
    return (basis.mT * coefficients).cumsum(1), regular


def _many_pairs(xs: Tensor, ys: Tensor) -> tuple[Tensor, Tensor]:
    """Weights from d + 1 … m pairs, [B, m − d, d], and whether each prefix is surely regular."""
    dims = xs.shape[2]
    pairs = torch.cat([xs, ys[:, :, None]], dim=2)
    norms = xs.square().sum(2).cumsum(1)
    factor = torch.linalg.qr(pairs[:, :dims], mode="r").R
    unit = torch.eye(dims, dtype=xs.dtype).expand(len(xs), -1, -1)
    weights, regular = [], []
    for k in range(dims + 1, xs.shape[1] + 1):
        factor = _with_row(factor, pairs[:, k - 1])
        # One solve for both R⁻¹, whose norm is needed, and the weights R⁻¹ z.
        right = torch.cat([unit, factor[:, :, -1:]], dim=2)
        solution = torch.linalg.solve_triangular(factor[:, :, :-1], right, upper=True)
        inverse = solution[:, :, :-1]
        regular.append(_surely_regular(norms[:, k - 1], inverse.square().sum((1, 2)), k))
        weights.append(solution[:, :, -1])
    return torch.stack(weights, dim=1), torch.stack(regular, dim=1)


def _with_row(factor: Tensor, row: Tensor) -> Tensor:
    """The triangular factor [B, d, d + 1] of rows (x, y) with one row [B, d + 1] more. The
    residual of y is dropped."""
    stacked = torch.cat([factor, row[:, None]], dim=1)
    return torch.linalg.qr(stacked, mode="r").R[:, :-1]


def _surely_regular(norm: Tensor, inverse_norm: Tensor, size: int) -> Tensor:
    """Says whether the squared Frobenius norms of a matrix and its inverse prove that its smallest
    singular value is above the cut-off; false if they are infinite."""
    # σ_max / σ_min ≤ ‖A‖ ‖A⁻¹‖ in Frobenius norms, and the cut-off is σ_min = size · eps · σ_max.
    return norm * inverse_norm < (size * _EPS) ** -2
