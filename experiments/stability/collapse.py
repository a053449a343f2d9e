"""Whether training collapsed, by a rule on its loss curve, and when it left its first plateau.

reason = collapse(losses, final=0.9, plain=0.5)         # "" for a curve that did not
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

DECAY = 0.98  # of the smoothed loss: its noise is that of the mean of 99 losses
MARGIN = 0.5  # what a loss may end above its best: nats, or squared errors over that of zero
RATIO = 1.5  # how often a model's error may be that of the same model without loops
_LAST = 200  # steps whose mean counts as the end
_SETTLED = 50  # losses that a smoothed one needs to be more than their noise


def smoothed(losses: ArrayLike, decay: float = DECAY) -> NDArray[np.float64]:
    """The mean of losses [steps, ...] so far, weights falling by `decay` a step."""
    curve = np.asarray(losses, dtype=np.float64)
    found, total, weight = np.empty_like(curve), np.zeros_like(curve[:1].sum(0)), 0.0
    for step, loss in enumerate(curve):
        total, weight = decay * total + loss, decay * weight + 1
        found[step] = total / weight
    return found


def collapse(losses: ArrayLike, final: float | None = None, plain: float | None = None) -> str:
    """Why a run whose losses [steps] are these collapsed, empty where it did not.

    A loss is not finite; or the smoothed loss over the last 200 steps is on average more than 0.5
    above the least that it was; or the `final` error is more than 1.5 times the `plain` one, that
    of the same model of one loop, where both are known. (arXiv 2605.18797 means by collapse high
    plateaus, fluctuations and useless models, without numbers: these are ours, for losses in nats
    or for squared errors over that of predicting zero.)
    """
    curve = np.asarray(losses, dtype=np.float64)
    if not np.isfinite(curve).all() or not (final is None or np.isfinite(final)):
        return "not finite"
    smooth = smoothed(curve)[_SETTLED - 1 :]
    if len(smooth) and smooth[-_LAST:].mean() > smooth.min() + MARGIN:
        return f"ends {MARGIN:g} above its best"
    if final is not None and plain is not None and final > RATIO * plain:
        return f"error above {RATIO:g} x that of one loop"
    return ""


def left_plateau(losses: ArrayLike, below: float) -> int | None:
    """The first step (counted from 1, at least 50) whose smoothed loss is below this; None where
    none is."""
    under = np.flatnonzero(smoothed(losses)[_SETTLED - 1 :] < below)
    return int(under[0]) + _SETTLED if len(under) else None
