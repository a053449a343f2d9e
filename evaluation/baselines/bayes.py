"""The Bayes-optimal predictors of linear functions: the posterior mean of the output, exactly.

predictions = sparse_posterior(xs, ys, queries, sparsity=3)          # [prompts, n], float64
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from reloop.conf.checks.config import MOST_SUPPORTS

from ..bootstrap import Floats
from .linear import least_squares, ridge

_CANDIDATES = 2**17  # (prompt, support) pairs at once: a few MB for each number kept of a pair
# A support this many nats behind the best of its prompt is dropped. Under the model its posterior
# is a martingale, so the chance that it would ever matter again, beyond 1e-6, is below 1e-20.
_HOPELESS = 60.0
_ROUNDING = 2.0**-24  # of an output that came from float32 arithmetic, relative to its size


def linear_posterior(xs: Floats, ys: Floats, queries: Floats, noise_std: float) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) with w ~ N(0, I).

    Ridge regression whose penalty is the noise's variance; without noise its limit, the
    minimum-norm solution. xs, queries [B, n, d], ys [B, n]; returns [B, n].
    """
    if noise_std == 0:
        return least_squares(xs, ys, queries)
    return ridge(xs, ys, queries, penalty=noise_std**2)


def sparse_posterior(
    xs: Floats, ys: Floats, queries: Floats, sparsity: int, noise_std: float = 0.0
) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) with w ~ N(0, I) on a uniformly random support
    of min(sparsity, d) coordinates: the mean over all supports, each weighed by its evidence.

    Beside the noise, outputs are taken to carry float32's rounding: sqrt(sparsity / d) |x| 2⁻²⁴,
    the standard deviation of y given x times the unit of rounding. Without noise it tells which
    supports agree with the examples: from sparsity + 1 examples on, the true one leaves residuals
    of that size and any other far larger ones. xs, queries [B, n, d], ys [B, n]; returns [B, n].
    Raises ValueError where there are more than 100,000 supports.
    """
    prompts, _, dims = xs.shape
    sparsity = min(sparsity, dims)
    count = comb(dims, sparsity)
    if count > MOST_SUPPORTS:
        raise ValueError(
            f"sparsity {sparsity} of {dims} dimensions has {count:,} supports, "
            f"more than the {MOST_SUPPORTS:,} that are enumerated"
        )
    supports = np.array(list(combinations(range(dims), sparsity)), dtype=np.intp).T
    rounding = _ROUNDING * np.sqrt(sparsity / dims * np.square(xs).sum(-1))
    scale = np.hypot(noise_std, rounding)
    scale[scale == 0] = 1.0  # an input of zeros says nothing, at any scale
    white_xs, white_ys = xs / scale[:, :, None], ys / scale
    block = max(1, _CANDIDATES // count)
    return np.concatenate(
        [
            _posterior(white_xs[some], white_ys[some], queries[some], supports)
            for some in (slice(first, first + block) for first in range(0, prompts, block))
        ]
    )


def _posterior(xs: Floats, ys: Floats, queries: Floats, supports: NDArray[np.intp]) -> Floats:
    """The posterior mean under unit noise for supports [s, C].

    Candidates are the pairs of a prompt and a support that are still in the running, in the order
    of the prompts. Each keeps the triangle R and the right side z of its least-squares problem
    [I; X_S] w = [0; y], which Givens rotations bring up to date with each example. What a rotation
    leaves of y, ρ, makes the evidence, exp(-Σ ρ²/2) / det R up to a factor common to all supports.
    Residuals are so never differences of large numbers, and no matrix is inverted.
    """
    (prompts, points), (sparsity, count) = ys.shape, supports.shape
    prompt = np.repeat(np.arange(prompts), count)
    support = np.tile(supports, prompts)
    triangles = np.zeros((sparsity, sparsity + 1, len(prompt)))
    triangles[range(sparsity), range(sparsity)] = 1.0
    misfit = np.zeros(len(prompt))  # Σ ρ²/2
    predictions = np.zeros_like(ys)
    for k in range(1, points):
        row = np.concatenate([xs[prompt, k - 1, support], ys[None, prompt, k - 1]])
        misfit += np.square(_absorb(triangles, row)) / 2
        diagonal = triangles[range(sparsity), range(sparsity)]
        evidence = -misfit - np.log(diagonal).sum(0)
        first = np.searchsorted(prompt, np.arange(prompts))
        evidence -= np.maximum.reduceat(evidence, first)[prompt]
        alive = evidence > -_HOPELESS
        if alive.mean() < 0.9:  # a copy is worth its while
            prompt, misfit, evidence = prompt[alive], misfit[alive], evidence[alive]
            support, triangles = support[:, alive], triangles[:, :, alive]
            first = np.searchsorted(prompt, np.arange(prompts))
        weights = np.exp(evidence)
        means = (queries[prompt, k, support] * _solve(triangles)).sum(0)
        total = np.add.reduceat(weights, first)
        predictions[:, k] = np.add.reduceat(weights * means, first) / total
    return predictions


def _absorb(triangles: Floats, row: Floats) -> Floats:
    """Rotate rows [s + 1, N] into the triangles [s, s + 1, N], in place; what is left of y, [N]."""
    for j in range(len(triangles)):
        own, new = triangles[j, j:], row[j:]
        length = np.hypot(own[0], new[0])
        cosine, sine = own[0] / length, new[0] / length
        own[:], new[:] = cosine * own + sine * new, cosine * new - sine * own
    return row[-1]


def _solve(triangles: Floats) -> Floats:
    """The weights [s, N] that solve R w = z, from the last coordinate to the first."""
    weights = np.empty_like(triangles[:, -1])
    for j in reversed(range(len(triangles))):
        known = (triangles[j, j + 1 : -1] * weights[j + 1 :]).sum(0)
        weights[j] = (triangles[j, -1] - known) / triangles[j, j]
    return weights
