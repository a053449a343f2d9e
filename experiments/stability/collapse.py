"""Whether a training collapsed, by a rule on its loss curve, and when it left its first plateau.

reason = collapse(losses, final=0.9, plain=0.5)         # "" if it did not
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reloop.training.run_folder.metrics import smoothed

DECAY = 0.98  # of the smoothed loss: its noise is that of the mean of 99 losses
MARGIN = 0.5  # the most that a loss may end above its best: nats, or errors over that of zero
RATIO = 1.5  # the most that an error may be over that of the same model of one loop
_LAST = 200  # steps whose mean counts as the end
_SETTLED = 50  # losses that a smoothed one needs to be above their noise


def collapse(losses: ArrayLike, final: float | None = None, plain: float | None = None) -> str:
    """The reason why a run with these losses [steps] collapsed, empty if it did not.

    A loss is not finite; or the mean of the smoothed loss over the last 200 steps is more than 0.5
    above its minimum; or the `final` error is more than 1.5 times the `plain` one, that of the same
    model of one loop, if both are given. (arXiv 2605.18797 calls high plateaus, fluctuations and
    useless models collapse, without numbers: these are ours, for losses in nats or for squared
    errors over that of predicting zero.)
    """
    curve = np.asarray(losses, dtype=np.float64)
    if not np.isfinite(curve).all() or not (final is None or np.isfinite(final)):
        return "not finite"
    smooth = smoothed(curve, DECAY)[_SETTLED - 1 :]
    if len(smooth) and smooth[-_LAST:].mean() > smooth.min() + MARGIN:
        return f"ends {MARGIN:g} above its best"
    if final is not None and plain is not None and final > RATIO * plain:
        return f"error above {RATIO:g} x that of one loop"
    return ""


def plateau_exit(losses: ArrayLike, threshold: float) -> int | None:
    """The first step (counted from 1, at least 50) whose smoothed loss is below `threshold`; None
    if there is none."""
    steps = np.flatnonzero(smoothed(losses, DECAY)[_SETTLED - 1 :] < threshold)
    return int(steps[0]) + _SETTLED if len(steps) else None
