"""The claims of 'On the Residual Scaling of Looped Transformers' (arXiv 2606.18524) on models near
their initialisation (Figures 2 to 4 and 9).

Evidence.results["stability"] maps the name of a figure of `python -m experiments.stability` to the
content of its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from reloop.evaluation.bootstrap import Floats

from .claim import Estimate, Evidence, Paper
from .statistics import over_seeds

_BOUNDED = 1.25  # a norm or a change within a quarter, from the fewest loops to the most
ACROSS = "from the fewest loops to the most"
_HALF = 0.25  # slopes 1, 1/2 and 0 are told apart halfway between them


of_paper = Paper("arXiv 2606.18524", "scaling_", steps=0, size="U = 12, d = 768").claim

# Figure 2: the norm of the stream after the first ten steps. A normed stream grows like the square
# root of the loops at least where it grows: over 64 loops by far more than half.
_NORMS: dict[str, tuple[str, str, float, Literal["above", "below"], str, str]] = {
    "fig2_none_grows": ("looped", "none", 2.0, "above", "grows with the loops", ""),
    "fig2_sqrt_grows": ("looped", "sqrt", 1.5, "above", "still grows with the loops", ""),
    "fig2_linear_is_flat": ("looped", "linear", _BOUNDED, "below", "does not grow", "flat"),
    "fig2_deep_sqrt_is_flat": ("non_shared", "sqrt", _BOUNDED, "below", "does not grow", "flat"),
}
_SCALED = {"none": "unscaled", "sqrt": "scaled by 1/√R", "linear": "scaled by 1/R"}
_STACK = {"looped": "a looped stack", "non_shared": "an equally deep stack of layers of its own"}


def _norm_claim(name: str) -> None:
    sharing, scaling, line, holds_if, what, published = _NORMS[name]

    @of_paper(
        name,
        f"With residual branches {_SCALED[scaling]}, the norm of {_STACK[sharing]} {what}.",
        "Figure 2",
        f"norm of the stream after the first steps, ratio {ACROSS}",
        line,
        holds_if,
        published,
        steps=10,
    )
    def norm(evidence: Evidence) -> Estimate:
        result = evidence.result("stability", "norms")
        norms = _by_seed(result["norm"][sharing][scaling])[:, :, -1]
        return sized(over_seeds(norms[:, -1] / norms[:, 0], log=True), result, result["steps"])


for _name in _NORMS:
    _norm_claim(_name)


@of_paper(
    "fig3_looped_increments_agree",
    "The increments of a new looped stack point in one direction.",
    "Figure 3",
    "mean cosine of two different increments, looped",
    0.3,  # the least of the published range of trained ones; independent ones have 0 ± .01
    "above",
    "densely positive",
)
def looped_increments_agree(evidence: Evidence) -> Estimate:
    """Over pairs of different loops."""
    result = evidence.result("stability", "cosines")
    return sized(over_seeds(_by_seed(result["apart"]["looped"])), result, 0)


@of_paper(
    "fig3_deep_increments_do_not",
    "The increments of layers that share no weights are orthogonal.",
    "Figure 3",
    "mean cosine of two different increments, non-shared",
    0.1,
    "below",
    "near 0",
)
def deep_increments_do_not(evidence: Evidence) -> Estimate:
    """Over pairs of different blocks."""
    result = evidence.result("stability", "cosines")
    return sized(over_seeds(_by_seed(result["apart"]["non_shared"])), result, 0)


def _slopes(evidence: Evidence, steps: slice) -> tuple[dict[str, Floats], Any]:
    """For each scaling the slope of log change of the output before the final norm over log R, the
    mean over these steps, [seeds]."""
    result = evidence.result("stability", "changes")
    slopes = result["slope"]["raw"]
    return {name: _by_seed(slopes[name])[:, steps].mean(1) for name in _SCALED}, result


def _slope_claims(figure: int, steps: slice, when: str, count: int) -> None:
    of_figure = f"Figure {figure}"

    @of_paper(
        f"fig{figure}_none_moves_more",
        f"Unscaled, {when} moves the output more the more loops there are.",
        of_figure,
        "slope of log change over log R, none less sqrt",
        _HALF,
        "above",
        "1/2 (∝ R against √R)",
        count,
    )
    def none_moves_more(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return sized(over_seeds(slopes["none"] - slopes["sqrt"]), result, count)

    @of_paper(
        f"fig{figure}_sqrt_moves_more",
        f"Scaled by 1/√R, {when} still moves the output more the more loops there are.",
        of_figure,
        "slope of log change over log R, sqrt less linear",
        _HALF,
        "above",
        "1/2 (∝ √R against flat)",
        count,
    )
    def sqrt_moves_more(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return sized(over_seeds(slopes["sqrt"] - slopes["linear"]), result, count)

    @of_paper(
        f"fig{figure}_linear_is_flat",
        f"Scaled by 1/R, {when} moves the output as far whatever the number of loops.",
        of_figure,
        "slope of log change over log R, linear",
        _HALF,
        "below",
        "0 (flat)",
        count,
    )
    def linear_is_flat(evidence: Evidence) -> Estimate:
        slopes, result = _slopes(evidence, steps)
        return sized(over_seeds(slopes["linear"]), result, count)


_slope_claims(4, slice(0, 1), "one optimiser step", 1)
_slope_claims(9, slice(0, 10), "each of the first ten optimiser steps", 10)


def _by_seed(curve: Mapping[str, Any]) -> Floats:
    """The values of a curve seed by seed, [seeds, …]."""
    return np.array(curve["by_seed"], dtype=np.float64)


def sized(estimate: Estimate, result: Mapping[str, Any], steps: int) -> Estimate:
    """With the size of the models of a result."""
    init = result.get("init")
    size = f"U = {init['layers']}, d = {init['width']}" if init else "U = 1, d = 32"
    return estimate._replace(steps=steps, size=size)
