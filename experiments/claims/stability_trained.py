"""The claims of 'On the Residual Scaling of Looped Transformers' (arXiv 2606.18524) on trained
models (Figures 5 to 8), from the figures `sweep` and `trained` of `experiments.stability`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .claim import Estimate, Evidence, NotMeasured
from .stability import ACROSS, of_paper, sized
from .statistics import absolute, over_seeds


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


@of_paper(
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
    return sized(gain, result, result["steps"])


@of_paper(
    "fig5_linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    f"octaves by which the best rate moves either way {ACROSS}, linear",
    1.0,  # two rates of the sweep's grid
    "below",
    "a narrow band",
    20_000,
)
def linear_rate_stays(evidence: Evidence) -> Estimate:
    """The size of the movement."""
    result = _sweep(evidence)
    moved = absolute(_from_verdict(result["move"]["linear"]))
    return sized(moved, result, result["steps"])


@of_paper(
    "fig5_sqrt_rate_falls",
    "With 1/√R the best learning rate falls with the number of loops.",
    "Figure 5",
    f"octaves by which the best rate falls {ACROSS}, sqrt",
    0.5,  # half a step of the sweep's grid: the least that counts as a movement there
    "above",
    "",
    20_000,
)
def sqrt_rate_falls(evidence: Evidence) -> Estimate:
    """The sweep's own movement, downwards."""
    result = _sweep(evidence)
    return sized(_from_verdict(result["move"]["sqrt"], -1), result, result["steps"])


def _trained(evidence: Evidence) -> list[Any]:
    """The finished runs with 1/R or its factored form, by loops."""
    runs = evidence.result("stability", "trained")["runs"]
    for run in runs:
        if run["unfinished"] or not run["step"]:
            raise NotMeasured(f"{run['what']}: {'; '.join(run['unfinished']) or 'untrained'}")
    found = [run for run in runs if run["scaling"] in ("linear", "factored")]
    return sorted(found, key=lambda run: run["loops"])


@of_paper(
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


@of_paper(
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
