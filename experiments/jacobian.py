"""A penalty on the loop's Jacobian: the error far beyond the loops of training."""

from looplab.evaluation.statistics import Estimate, NotMeasured

from .evidence import Evidence, Trainings, after, at_b, groups, ratio, within

_FAR = 10  # times b


def growth_with_penalty_over_without(evidence: Evidence) -> Estimate:
    """The growth of the last query's error from b to 10 b loops, with the penalty over without."""
    return within([_pair(evidence, "looped")], [after(_FAR)], [at_b])


def error_with_penalty_over_without(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, with the penalty over without."""
    return ratio([_pair(evidence, "looped")], at_b)


def growth_without_injection(evidence: Evidence) -> Estimate:
    """The last query's error after 10 b loops over that after b, with the penalty and without
    injection."""
    with_penalty, _ = _pair(evidence, "tied")
    return within([[with_penalty]], [after(_FAR)], [at_b])


def _pair(evidence: Evidence, family: str) -> tuple[Trainings, Trainings]:
    """The models of a family with the largest penalty, and those without."""
    models = groups(evidence, family=family)
    weights = [model.config.training.jacobian_penalty for model in models]
    if min(weights) or not max(weights):
        raise NotMeasured(f"{family} models with and without training.jacobian_penalty")
    largest = weights.index(max(weights))
    return models[largest], models[weights.index(0.0)]
