"""The Bayes-optimal predictors of linear functions: the posterior mean of the output, exactly;
also among finitely many functions.

predictions = sparse_posterior(xs, ys, queries, sparsity=3)          # [prompts, n], float64
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .least_squares import Floats, ridge

_CANDIDATES = 2**17  # (prompt, support) pairs per block: a few MB for each number stored per pair
# A support this many nats below the best of its prompt is dropped. Under the model its posterior is
# a martingale, so the probability that it ever exceeds 1e-6 again is below 1e-20.
_DROP_NATS = 60.0
_ROUNDING = 2.0**-24  # relative rounding error of an output in float32 arithmetic
_NUMBERS = 2**22  # residuals at once


def sparse_posterior(
    xs: Floats, ys: Floats, queries: Floats, sparsity: int, noise_std: float = 0.0
) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) with w ~ N(0, I) on a uniformly random support
    of min(sparsity, d) coordinates: the mean over all supports, weighted by their evidence.

    In addition to the noise, outputs are assumed to have float32's rounding error:
    sqrt(sparsity / d) |x| 2⁻²⁴, the standard deviation of y given x times the unit roundoff.
    Without noise it decides which supports agree with the examples: from sparsity + 1 examples on,
    the true support leaves residuals of that size, any other far larger ones.
    """
    prompts, _, dims = xs.shape
    sparsity = min(sparsity, dims)
    # [s, C]: the long axis last, so that each coordinate's numbers lie together.
    supports = np.array(list(combinations(range(dims), sparsity)), dtype=np.intp).T
    rounding = _ROUNDING * np.sqrt(sparsity / dims * np.square(xs).sum(-1))
    scale = np.hypot(noise_std, rounding)
    scale[scale == 0] = 1.0  # an input of zeros carries no information, at any scale
    xs, ys = xs / scale[:, :, None], ys / scale
    block = max(1, _CANDIDATES // supports.shape[1])
    predictions = np.empty_like(ys)
    for first in range(0, prompts, block):
        rows = slice(first, first + block)
        predictions[rows] = _posterior(xs[rows], ys[rows], queries[rows], supports)
    return predictions


def _posterior(xs: Floats, ys: Floats, queries: Floats, supports: NDArray[np.intp]) -> Floats:
    """The posterior mean under unit noise for supports [s, C].

    Candidates are the pairs of a prompt and a support that are not yet dropped, in the order of the
    prompts. Each has the triangle R and the right side z of its least-squares problem
    [I; X_S] w = [0; y], which Givens rotations update with each example. The residuals ρ of y after
    the rotations give the evidence, exp(-Σ ρ²/2) / det R up to a factor common to all supports. So
    no residual is a difference of large numbers, and no matrix is inverted.
    """
    (prompts, points), (sparsity, count) = ys.shape, supports.shape
    prompt = np.repeat(np.arange(prompts), count)
    support = np.tile(supports, prompts)
    triangles = np.zeros((sparsity, sparsity + 1, len(prompt)))
    triangles[range(sparsity), range(sparsity)] = 1.0
    misfit = np.zeros(len(prompt))  # Σ ρ²/2
    predictions = np.zeros_like(ys)
    for k in range(1, points):
        # prompt [N] and support [s, N] index together: x_S is [s, N], and with y [s + 1, N].
        row = np.concatenate([xs[prompt, k - 1, support], ys[None, prompt, k - 1]])
        misfit += np.square(_absorb(triangles, row)) / 2
        diagonal = triangles[range(sparsity), range(sparsity)]
        evidence = -misfit - np.log(diagonal).sum(0)
        # Where each prompt's candidates begin: each has some, since its best one always stays.
        first = np.searchsorted(prompt, np.arange(prompts))
        evidence -= np.maximum.reduceat(evidence, first)[prompt]
        mask = evidence > -_DROP_NATS
        if mask.mean() < 0.9:  # else the copy costs more than it saves
            prompt = prompt[mask]
            misfit = misfit[mask]
            evidence = evidence[mask]
            support = support[:, mask]
            triangles = triangles[:, :, mask]
            first = np.searchsorted(prompt, np.arange(prompts))
        weights = np.exp(evidence)
        means = (queries[prompt, k, support] * _solve(triangles)).sum(0)
        total = np.add.reduceat(weights, first)
        predictions[:, k] = np.add.reduceat(weights * means, first) / total
    return predictions


def _absorb(triangles: Floats, row: Floats) -> Floats:
    """Rotate rows [s + 1, N] into triangles [s, s + 1, N], in place; returns y's residuals [N]."""
    for j in range(len(triangles)):
        old = triangles[j, j:]
        new = row[j:]
        length = np.hypot(old[0], new[0])
        cosine = old[0] / length
        sine = new[0] / length
        # A Givens rotation that makes new[0] zero; both right sides come before either is written.
        old[:], new[:] = cosine * old + sine * new, cosine * new - sine * old
    return row[-1]


def _solve(triangles: Floats) -> Floats:
    """The weights [s, N] that solve R w = z, from the last coordinate to the first."""
    weights = np.empty_like(triangles[:, -1])
    for j in reversed(range(len(triangles))):
        sums = (triangles[j, j + 1 : -1] * weights[j + 1 :]).sum(0)
        weights[j] = (triangles[j, -1] - sums) / triangles[j, j]
    return weights


def curve_posterior(
    xs: Floats, ys: Floats, queries: Floats, variances: Floats, noise_std: float
) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) with independent w_j ~ N(0, variances_j): as
    v·(x times the roots of these), with v ~ N(0, I)."""
    roots = np.sqrt(variances)
    return ridge(xs * roots, ys, queries * roots, noise_std**2)


def discrete_posterior(
    xs: Floats, ys: Floats, queries: Floats, weights: Floats, noise_std: float
) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) where w is one of `weights` [N, d], each as
    likely (dMMSE, arXiv 2306.15063): the mean of their outputs, weighted by the likelihood of the
    pairs before. `noise_std` is above 0."""
    prompts, points = ys.shape
    block = max(1, _NUMBERS // (points * len(weights)))
    predictions = np.empty_like(ys)
    for rows in (slice(first, first + block) for first in range(0, prompts, block)):
        # [prompts, n, N]: of each pair for each of the N functions.
        residuals = (ys[rows, :, None] - xs[rows] @ weights.T) / noise_std
        misfit = np.square(residuals).cumsum(1) / 2
        log_weights = np.zeros_like(misfit)  # without examples all are as likely
        log_weights[:, 1:] = -misfit[:, :-1]
        # The likeliest has weight 1, so that not all of them underflow to 0.
        log_weights -= log_weights.max(2, keepdims=True)
        shares = np.exp(log_weights)
        outputs = queries[rows] @ weights.T
        predictions[rows] = (shares * outputs).sum(2) / shares.sum(2)
    return predictions
