"""Claims on loops beyond those of training: with a penalty on the loop's Jacobian, and with numbers
of loops drawn in training, how level the error stays where a user may stop (arXiv 2606.29983)."""

from __future__ import annotations

from looplab.evaluation.bootstrap import Floats

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import Group, at_b, at_loop, errors, group, groups, ratio, within
from .in_context import NO_WORSE, STAYS
from .statistics import over_seeds

_PENALTY = "arXiv 2106.14342 (for equilibrium models)"
_FAR = 10  # times b, under a penalty
_STOP = 3  # times b: the last loop at which a user may stop


claim(
    "jacobian_penalty_settles_the_loop",
    "A penalty on the last loop's Jacobian lowers the growth of the error far beyond the loops of "
    "training.",
    source=_PENALTY,
    quantity="growth of the last query's error from b to 10 b loops, with the penalty over without",
    below=1.0,
)(lambda evidence: within([_pair(evidence, "looped")], _far, at_b))
claim(
    "jacobian_penalty_is_free_at_b",
    "After the loops of training a looped model errs no more with the penalty than without it.",
    source=_PENALTY,
    quantity="error of the last query after b loops, with the penalty over without",
    below=NO_WORSE,
)(lambda evidence: ratio([_pair(evidence, "looped")], at_b))
claim(
    "jacobian_penalty_needs_injection",
    "Without injection of the prompt the error grows far beyond the loops of training with the "
    "penalty, too.",
    source="arXiv 2604.15259: loops without recall have no fixed points that depend on the input",
    quantity="error of the last query after 10 b loops over that after b, with the penalty and "
    "without injection",
    above=STAYS,
)(lambda evidence: within([_pair(evidence, "tied")[:1]], _far, at_b))


def _pair(evidence: Evidence, family: str) -> tuple[Group, Group]:
    """The models of a family with the largest penalty, and those without."""
    found = groups(evidence, family=family)
    weights = [each.config.training.jacobian_penalty for each in found]
    if min(weights) or not max(weights):
        raise NotMeasured(f"{family} models with and without training.jacobian_penalty")
    return found[weights.index(max(weights))], found[weights.index(0.0)]


def _far(of: Group) -> Floats:
    return at_loop(of, _FAR * of.b)


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
        by_loop = errors(of, "by_loop").mean(1)
        variances.append(by_loop[:, of.b - 1 : _STOP * of.b].var(axis=1))
    fixed, drawn = variances
    seeds = min(len(fixed), len(drawn))
    return over_seeds(drawn[:seeds] / fixed[:seeds], log=True)
