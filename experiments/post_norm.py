"""Post-norm blocks of a loop, with the factors of DeepNorm (arXiv 2203.00555) and of its form for
loops (DeepLoop, arXiv 2607.13491), beside pre-norm blocks whose branches are scaled by 1/R."""

from functools import partial

from looplab.evaluation.statistics import Estimate

from .claims import Evidence, claim
from .evidence import groups, over_examples, ratio

_NO_WORSE = 1.1


def _errors_over(evidence: Evidence, above: tuple[str, str], below: tuple[str, str]) -> Estimate:
    """Of models by the place of their norm and their scaling."""
    pair = [
        groups(evidence, block_norm=norm, residual_scaling=scaling)[0]
        for norm, scaling in (above, below)
    ]
    return ratio([(pair[0], pair[1])], over_examples)


_QUANTITY = "mean error over all numbers of examples, {} over {}"
_PRE = "pre-norm with 1/R"
for _name, _label, _source in (
    ("deepnorm", "DeepNorm", "arXiv 2203.00555"),
    ("deeploop", "DeepLoop", "arXiv 2607.13491"),
):
    claim(
        f"{_name}_like_pre_norm",
        f"With {_label}'s factors post-norm blocks err no more than pre-norm ones whose branches "
        "are scaled by 1/R.",
        source=_source,
        quantity=_QUANTITY.format(f"post-norm with {_label}'s factors", _PRE),
        below=_NO_WORSE,
    )(partial(_errors_over, above=("post", _name), below=("pre", "linear")))

claim(
    "post_norm_needs_factors",
    "Without factors post-norm blocks err more than with DeepLoop's.",
    source="arXiv 2607.13491",
    quantity=_QUANTITY.format("post-norm without factors", "with DeepLoop's"),
    above=1.0,
)(partial(_errors_over, above=("post", "none"), below=("post", "deeploop")))
