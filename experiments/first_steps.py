"""The norm of a looped stream over the first optimiser steps with 1/√R, at the paper's own initial
weights and rate (arXiv 2606.18524, Section 5.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.show.panel import Curve, Panel, mean_of_seeds
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import INITS, STEPS, Stack, all_first_steps, by_seed, values_of

_SCALING = "sqrt"


def measure(
    runs: Sequence[Run], settings: EvaluationConfig, loops: int = 64, seeds: int = 10
) -> dict[str, Any]:
    """Take the first steps of new looped transformers; it needs no runs. `norm`: the root mean
    square of the last stream before the final norm, over seeds, from initialisation on."""
    init = INITS["paper_like"]
    norm = all_first_steps(init, [Stack(loops, True, _SCALING)], STEPS, range(seeds))["norm"]
    return {"loops": loops, "layers": init.layers, "norm": by_seed(norm[:, 0])}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The norm by step."""
    norm = values_of(found["norm"])
    loops = found["loops"]
    curve = Curve.of("looped, 1/√R", _SCALING, mean_of_seeds(norm))
    axes = ("optimiser step", "norm (root mean square)")
    title = f"U = {found['layers']}, R = {loops}"
    return [Panel("first-steps", title, *axes, range(norm.shape[1]), [curve])]


def norm_growth(evidence: Evidence) -> Estimate:
    """The norm after the first steps over that at initialisation."""
    result = evidence.result("first_steps")
    norm = values_of(result["norm"])
    growth = over_seeds(norm[:, -1] / norm[:, 0], log=True)
    return growth._replace(steps=STEPS, size=f"U = {result['layers']}, R = {result['loops']}")
