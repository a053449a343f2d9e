"""Claims on halting prediction by prediction (of_runs/halting.py has the measure)."""

from __future__ import annotations

from typing import Literal, cast

from reloop.experiments.named.measures.of_runs.halting import HaltingResult

from .claim import Estimate, Evidence, NotMeasured, claim
from .measured import estimate_of

_SOURCE = "arXiv 1603.08983 (adaptive computation time) and 2409.15647 (loops by need)"
_AT = "mean loops for an error at most 5 % above that after b loops, linear functions, {}"


@claim(
    "halting_beats_a_fixed_number",
    "Halting each prediction once its state hardly changes takes fewer loops than a number that is "
    "the same for all, at the same error.",
    source=_SOURCE,
    quantity=_AT.format("measured halting over a fixed number"),
    line=1.0,
    holds_if="below",
)
def halting_beats_a_fixed_number(evidence: Evidence) -> Estimate:
    return _of_linear(evidence, "measured_over_fixed")


@claim(
    "learned_halting_beats_measured",
    "Halting by a learned readout of the state takes fewer loops than halting once it hardly "
    "changes, at the same error.",
    source=_SOURCE,
    quantity=_AT.format("learned halting over measured"),
    line=1.0,
    holds_if="below",
)
def learned_halting_beats_measured(evidence: Evidence) -> Estimate:
    return _of_linear(evidence, "learned_over_measured")


def _of_linear(
    evidence: Evidence, key: Literal["measured_over_fixed", "learned_over_measured"]
) -> Estimate:
    for group in cast(HaltingResult, evidence.result("halting"))["groups"]:
        if group["task"] == "linear":
            evidence.where(family="looped", name="linear")
            return estimate_of(group[key])
    raise NotMeasured("no looped model of linear functions")
