"""Random numbers of loops in training against a fixed one: how level the error stays from b loops
to 3 b, where a user may stop (arXiv 2606.29983)."""

from looplab.evaluation.statistics import Estimate, over_seeds

from .claims import Evidence, claim
from .evidence import group

_FAR = 3  # times b: the last loop at which a user may stop


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
    variances = []
    for sampling in ("none", "uniform"):
        of = group(evidence, family="looped", sampling=sampling)
        by_loop = of.errors("by_loop").mean(1)
        variances.append(by_loop[:, of.b - 1 : _FAR * of.b].var(axis=1))
    fixed, drawn = variances
    seeds = min(len(fixed), len(drawn))
    return over_seeds(drawn[:seeds] / fixed[:seeds], log=True)
