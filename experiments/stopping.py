"""Random numbers of loops in training against a fixed one: how level the error stays from b loops
to 3 b, where a user may stop (arXiv 2606.29983)."""

from __future__ import annotations

import numpy as np

from looplab.evaluation.bootstrap import Floats

from .claims import Estimate, Evidence, claim
from .evidence import Group, errors, group
from .statistics import over_seeds

_FAR = 3  # times b: the last loop that counts


def variances(of: Group) -> Floats:
    """The variance over loops b to 3 b of the last query's mean error, of each seed, [seeds]."""
    by_loop = errors(of, "by_loop").mean(1)
    return np.asarray(by_loop[:, of.b - 1 : _FAR * of.b].var(axis=1))


@claim(
    "stopping_drawn_loops_level_the_error",
    "Numbers of loops that are drawn anew for each step of training make the error vary less from "
    "b loops to 3 b than b loops in each step do.",
    source="arXiv 2606.29983",
    quantity="variance of the last query's error over loops b to 3 b, uniformly drawn over fixed",
    below=1.0,
)
def drawn_loops_level_the_error(evidence: Evidence) -> Estimate:
    """Seed by seed: the same seed has the same prompts and initial weights."""
    fixed, drawn = (
        variances(group(evidence, family="looped", sampling=sampling))
        for sampling in ("none", "uniform")
    )
    seeds = min(len(fixed), len(drawn))
    return over_seeds(drawn[:seeds] / fixed[:seeds], log=True)
