"""The claims of 'On the Residual Scaling of Looped Transformers' (arXiv 2606.18524) on models near
their initialisation (Figures 2 to 4 and 9) and on trained ones (Figures 5 to 8).

Evidence.results["stability"] maps the name of a figure of `python -m experiments.stability` to the
content of its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from looplab.evaluation.bootstrap import Floats

from .claims import Estimate, Evidence, NotMeasured, Paper
from .statistics import absolute, over_seeds

_BOUNDED = 1.25  # a norm or a change within a quarter, from the fewest loops to the most
_ACROSS = "from the fewest loops to the most"
_HALF = 0.25  # slopes 1, 1/2 and 0 are told apart halfway between them


_of_paper = Paper("arXiv 2606.18524", "scaling_", steps=0, size="U = 12, d = 768").claim

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

    @_of_paper(
        name,
        f"With residual branches {_SCALED[scaling]}, the norm of {_STACK[sharing]} {what}.",
        "Figure 2",
        f"norm of the stream after the first steps, ratio {_ACROSS}",
        line,
        holds_if,
        published,
        steps=10,
    )
    def norm(evidence: Evidence) -> Estimate:
        result = evidence.result("stability", "norms")
        norms = _by_seed(result["norm"][sharing][scaling])[:, :, -1]
        return _sized(over_seeds(norms[:, -1] / norms[:, 0], log=True), result, result["steps"])


for _name in _NORMS:
    _norm_claim(_name)


@_of_paper(
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
    return _sized(over_seeds(_by_seed(result["apart"]["looped"])), result, 0)


@_of_paper(
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
    return _sized(over_seeds(_by_seed(result["apart"]["non_shared"])), result, 0)


def _slopes(evidence: Evidence, steps: slice) -> tuple[dict[str, Floats], Any]:
    """For each scaling the slope of log change of the output before the final norm over log R, the
    mean over these steps, [seeds]."""
    result = evidence.result("stability", "changes")
    slopes = result["slope"]["raw"]
    return {name: _by_seed(slopes[name])[:, steps].mean(1) for name in _SCALED}, result


def _slope_claims(figure: int, steps: slice, when: str, count: int) -> None:
    of_figure = f"Figure {figure}"

    @_of_paper(
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
        return _sized(over_seeds(slopes["none"] - slopes["sqrt"]), result, count)

    @_of_paper(
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
        return _sized(over_seeds(slopes["sqrt"] - slopes["linear"]), result, count)

    @_of_paper(
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
        return _sized(over_seeds(slopes["linear"]), result, count)


_slope_claims(4, slice(0, 1), "one optimiser step", 1)
_slope_claims(9, slice(0, 10), "each of the first ten optimiser steps", 10)


def _by_seed(curve: Mapping[str, Any]) -> Floats:
    """The values of a curve seed by seed, [seeds, …]."""
    return np.array(curve["by_seed"], dtype=np.float64)


def _sized(estimate: Estimate, result: Mapping[str, Any], steps: int) -> Estimate:
    """With the size of the models of a result."""
    init = result.get("init")
    size = f"U = {init['layers']}, d = {init['width']}" if init else "U = 1, d = 32"
    return estimate._replace(steps=steps, size=size)


def _sweep(evidence: Evidence) -> Any:
    """The sweep; NotMeasured if nothing was learned."""
    result = evidence.result("stability", "sweep")
    few, many = str(result["loops"][0]), str(result["loops"][-1])
    for scaling, best in result["best"].items():
        for loops in (few, many):
            if best[loops] is None or best[loops]["error"] > 0.9 * result["initial"]:
                raise NotMeasured(f"{scaling}, R = {loops}: still on the plateau at every rate")
    return result


def _from_verdict(verdict: Mapping[str, Any], sign: int = 1) -> Estimate:
    """The 90 % interval of a sweep's verdict over seeds; NotMeasured, with its reason, if it is
    unknown."""
    if verdict["verdict"] == "unknown":
        raise NotMeasured(verdict["reason"])
    return over_seeds(sign * np.array(verdict["by_seed"]))


@_of_paper(
    "fig5_linear_gains",
    "At its best learning rate 1/R has less error than 1/√R with many loops.",
    "Figure 5",
    "least error with 1/√R less that with 1/R, at the most loops",
    0.0,
    "above",
    "0.025 nats at R = 8, 340M parameters",
    20_000,
)
def linear_gains(evidence: Evidence) -> Estimate:
    """The sweep's own gain."""
    result = _sweep(evidence)
    gain = _from_verdict(result["gain"][str(result["loops"][-1])])
    return _sized(gain, result, result["steps"])


@_of_paper(
    "fig5_linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    f"octaves by which the best rate moves either way {_ACROSS}, linear",
    1.0,  # two rates of the sweep's grid
    "below",
    "a narrow band",
    20_000,
)
def linear_rate_stays(evidence: Evidence) -> Estimate:
    """The size of the movement."""
    result = _sweep(evidence)
    moved = absolute(_from_verdict(result["move"]["linear"]))
    return _sized(moved, result, result["steps"])


@_of_paper(
    "fig5_sqrt_rate_falls",
    "With 1/√R the best learning rate falls with the number of loops.",
    "Figure 5",
    f"octaves by which the best rate falls {_ACROSS}, sqrt",
    0.5,  # half a step of the sweep's grid: the least that counts as a movement there
    "above",
    "",
    20_000,
)
def sqrt_rate_falls(evidence: Evidence) -> Estimate:
    """The sweep's own movement, downwards."""
    result = _sweep(evidence)
    return _sized(_from_verdict(result["move"]["sqrt"], -1), result, result["steps"])


def _trained(evidence: Evidence) -> list[Any]:
    """The finished runs with 1/R or its factored form, by loops."""
    runs = evidence.result("stability", "trained")["runs"]
    for run in runs:
        if run["unfinished"] or not run["step"]:
            raise NotMeasured(f"{run['what']}: {'; '.join(run['unfinished']) or 'untrained'}")
    found = [run for run in runs if run["scaling"] in ("linear", "factored")]
    return sorted(found, key=lambda run: run["loops"])


@_of_paper(
    "fig6_trained_increments_agree",
    "After training, too, the increments of a loop agree in direction.",
    "Figures 6 and 8",
    "mean cosine of two different increments, over trained runs",
    0.1,
    "above",
    "mostly positive, 0.3 to 0.6",
    20_000,
)
def trained_increments_agree(evidence: Evidence) -> Estimate:
    """Over the runs, which differ in their loops."""
    runs = [run for run in _trained(evidence) if run["apart"] is not None]
    estimate = over_seeds([run["apart"] for run in runs], what="run of several loops")
    return _over_runs(estimate, runs)


@_of_paper(
    "fig7_norm_does_not_depend_on_loops",
    "With 1/R trained models end with streams of one size however many loops they have.",
    "Figure 7",
    "largest over smallest norm of the stream after the last loop, over trained runs",
    1.5,  # 1/√R would give 2 from R = 2 to 8
    "below",
    "similar",
    20_000,
)
def norm_does_not_depend_on_loops(evidence: Evidence) -> Estimate:
    """Of runs that differ in their loops, with the standard errors over prompts."""
    runs = _trained(evidence)
    if len({run["loops"] for run in runs}) < 2:
        raise NotMeasured("no two trained runs that differ in their loops")
    ends = sorted(runs, key=lambda run: run["norm"]["mean"][-1])
    small, large = ends[0]["norm"], ends[-1]["norm"]
    ratio = large["mean"][-1] / small["mean"][-1]
    parts = [each["standard_error"][-1] / each["mean"][-1] for each in (small, large)]
    return _over_runs(over_seeds([ratio], [ratio * float(np.hypot(*parts))], log=True), runs)


def _over_runs(estimate: Estimate, runs: list[Any]) -> Estimate:
    loops = ", ".join(str(run["loops"]) for run in runs)
    steps = min(run["step"] for run in runs)
    return estimate._replace(seeds=1, steps=steps, size=f"R = {loops}", note="one seed")
