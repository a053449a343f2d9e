"""Whether a model has left the plateau at the start of training, and the Bayes error.

has_left_plateau(0.31, bayes=0.25, zero=1.0)      # True: far better than predicting 0
"""

from __future__ import annotations

LEAVES = 0.5  # the end of the plateau, from 0, the Bayes error, to 1, that of predicting 0


def has_left_plateau(loss: float, bayes: float, zero: float) -> bool:
    """Whether a model with this mean error over all numbers of examples uses its examples: its
    excess over the Bayes error is at most half of that of predicting 0."""
    return loss <= highest(bayes, zero)


def highest(bayes: float, zero: float) -> float:
    """The highest error that counts as off the plateau."""
    return bayes + LEAVES * (zero - bayes)


def bayes_error(dims: int, points: int) -> float:
    """The expected error of the best predictor of linear functions without noise, over the variance
    of y, averaged over 0 … points - 1 examples.

    k examples determine the weights w ~ N(0, I) in k directions and leave dims - k free: the error
    is (dims - k) / dims of y's variance, 0 for k >= dims (Garg et al. 2022).
    """
    return sum(max(dims - k, 0) for k in range(points)) / (dims * points)
