"""Random numbers of loops in training against a fixed one: how level the error stays from b loops
to 3 b, where a user may stop (arXiv 2606.29983)."""

import numpy as np

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, over_seeds

from .evidence import Evidence, Trainings, group

_FAR = 3  # times b: the last loop at which a user may stop


def variance_of_drawn_over_fixed(evidence: Evidence) -> Estimate:
    """The variance of the last query's error over loops b to 3 b, uniformly drawn over fixed, seed
    by seed: the same seed has the same prompts and initial weights."""
    fixed = _variance(group(evidence, family="looped", sampling="none"))
    drawn = _variance(group(evidence, family="looped", sampling="uniform"))
    seeds = min(len(fixed), len(drawn))
    return over_seeds(drawn[:seeds] / fixed[:seeds], log=True)


def _variance(model: Trainings) -> Floats:
    by_loop = model.errors("by_loop").mean(1)  # [seeds, loops]
    return np.asarray(by_loop[:, model.b - 1 : _FAR * model.b].var(axis=1))
