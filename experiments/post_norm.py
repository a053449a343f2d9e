"""Post-norm blocks of a loop, with the factors of DeepNorm (arXiv 2203.00555) and of its form for
loops (DeepLoop, arXiv 2607.13491), beside pre-norm blocks whose branches are scaled by 1/R."""

from looplab.evaluation.statistics import Estimate

from .evidence import Evidence, Trainings, groups, over_examples, ratio


def over_pre_norm(evidence: Evidence, scaling: str) -> Estimate:
    """The mean error of post-norm blocks with a scaling over that of pre-norm ones with 1/R."""
    post = _with(evidence, "post", scaling)
    pre = _with(evidence, "pre", "linear")
    return ratio([(post, pre)], over_examples)


def without_factors_over_deeploop(evidence: Evidence) -> Estimate:
    """The mean error of post-norm blocks without factors over that of those with DeepLoop's."""
    without = _with(evidence, "post", "none")
    deeploop = _with(evidence, "post", "deeploop")
    return ratio([(without, deeploop)], over_examples)


def _with(evidence: Evidence, norm: str, scaling: str) -> Trainings:
    return groups(evidence, block_norm=norm, residual_scaling=scaling)[0]
