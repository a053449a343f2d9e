"""When a model has left the plateau on which it starts, and the best error there could be.

left(0.31, bayes=0.25, zero=1.0)         # True: it predicts far better than 0 does
"""

from __future__ import annotations

LEAVES = 0.5  # of the way from the Bayes error to that of predicting 0: above it is the plateau


def left(loss: float, bayes: float, zero: float) -> bool:
    """Whether a mean error over all numbers of examples is one of a model that has begun to use its
    examples: at most half as far above the Bayes error as predicting 0 is."""
    return loss <= highest(bayes, zero)


def highest(bayes: float, zero: float) -> float:
    """The highest error that counts as off the plateau."""
    return bayes + LEAVES * (zero - bayes)


def bayes_error(dims: int, points: int) -> float:
    """The expected error of the best predictor of linear functions without noise, over the variance
    of y, averaged over 0 … points - 1 examples.

    With k examples the weights w ~ N(0, I) are known in k directions, and dims - k are as before:
    the error is (dims - k) / dims of y's variance, until nothing is unknown (Garg et al. 2022).
    """
    return sum(max(dims - k, 0) for k in range(points)) / (dims * points)
