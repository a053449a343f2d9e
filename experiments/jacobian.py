"""Claims on a penalty on the loop's Jacobian, far beyond the loops of training."""

from functools import partial

from looplab.evaluation.statistics import NotMeasured

from .claims import Evidence, claim
from .evidence import Trainings, after, at_b, groups, ratio, within
from .in_context import NO_WORSE, STAYS

_of_penalty = partial(claim, source="arXiv 2106.14342 (for equilibrium models)")
_FAR = after(10)

_of_penalty(
    "jacobian_penalty_settles_the_loop",
    "A penalty on the last loop's Jacobian lowers the growth of the error far beyond the loops of "
    "training.",
    quantity="growth of the last query's error from b to 10 b loops, with the penalty over without",
    below=1.0,
)(lambda evidence: within([_pair(evidence, "looped")], [_FAR], [at_b]))

_of_penalty(
    "jacobian_penalty_is_free_at_b",
    "After the loops of training a looped model errs no more with the penalty than without it.",
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
)(lambda evidence: within([_pair(evidence, "tied")[:1]], [_FAR], [at_b]))


def _pair(evidence: Evidence, family: str) -> tuple[Trainings, Trainings]:
    """The models of a family with the largest penalty, and those without."""
    found = groups(evidence, family=family)
    weights = [each.config.training.jacobian_penalty for each in found]
    if min(weights) or not max(weights):
        raise NotMeasured(f"{family} models with and without training.jacobian_penalty")
    return found[weights.index(max(weights))], found[weights.index(0.0)]
