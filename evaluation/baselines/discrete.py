"""The Bayes-optimal predictor among finitely many linear functions: the discrete posterior mean."""

from __future__ import annotations

import numpy as np

from ..bootstrap import Floats

_NUMBERS = 2**22  # residuals at once


def discrete_posterior(
    xs: Floats, ys: Floats, queries: Floats, weights: Floats, noise_std: float
) -> Floats:
    """Posterior mean for y = w·x + N(0, noise_std²) where w is one of `weights` [N, d], each as
    likely (dMMSE, arXiv 2306.15063): the mean of their outputs, weighted by the likelihood of the
    pairs before. xs, queries [B, n, d], ys [B, n]; returns [B, n].

    Raises ValueError without noise, where no weight but a limit would be left."""
    if not noise_std > 0:
        raise ValueError(f"noise_std must be above 0, got {noise_std}")
    prompts, points = ys.shape
    block = max(1, _NUMBERS // (points * len(weights)))
    predictions = np.empty_like(ys)
    for rows in (slice(first, first + block) for first in range(0, prompts, block)):
        residuals = (ys[rows, :, None] - xs[rows] @ weights.T) / noise_std
        misfit = np.square(residuals).cumsum(1) / 2
        log_weights = np.zeros_like(misfit)  # without examples all are as likely
        log_weights[:, 1:] = -misfit[:, :-1]
        log_weights -= log_weights.max(2, keepdims=True)
        shares = np.exp(log_weights)
        outputs = queries[rows] @ weights.T
        predictions[rows] = (shares * outputs).sum(2) / shares.sum(2)
    return predictions
