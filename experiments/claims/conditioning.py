"""Claims on inputs with condition numbers from 1 to κ (of_runs/conditioning.py has the measure)."""

from __future__ import annotations

from typing import cast

from reloop.experiments.named.measures.of_runs.conditioning import (
    ConditioningGroup,
    ConditioningResult,
)

from .claim import Estimate, Evidence, NotMeasured, claim
from .measured import estimate_of

_GATMIRY = "arXiv 2410.21698"
_RISE = "largest factor by which the error of a loop exceeds an earlier one's, up to b"


@claim(
    "looped_error_falls_with_every_loop",
    "The error of a looped model on ill-conditioned inputs never rises from loop to loop, up to "
    "those that it was trained with.",
    source=f"{_GATMIRY}, theorem on monotone loss",
    quantity=_RISE,
    line=1.1,  # a tenth: the noise of an error that is level, not a rise
    holds_if="below",
    published="the loss falls monotonically with the depth",
)
def looped_error_falls_with_every_loop(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "looped")["rise"])


@claim(
    "standard_error_rises_between_layers",
    "The error of a standard model on ill-conditioned inputs rises between some of its layers.",
    source=f"{_GATMIRY}, on models without weight sharing",
    quantity=_RISE,
    line=1.1,
    holds_if="above",
    published="looped models alone are monotone",
)
def standard_error_rises_between_layers(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "standard")["rise"])


@claim(
    "ill_conditioned_inputs_need_depth",
    "More loops help more on ill-conditioned inputs than on well-conditioned ones.",
    source=f"{_GATMIRY}, lower bounds log κ and √κ of the depth",
    quantity="error with few loops over that with many, at the largest condition number of "
    "training over that at the smallest",
    line=1.0,
    holds_if="above",
    published="the depth that is needed grows with κ",
)
def ill_conditioned_inputs_need_depth(evidence: Evidence) -> Estimate:
    result = cast(ConditioningResult, evidence.result("conditioning"))
    evidence.where(family="looped")
    if result["gain_ratio"] is None:
        raise NotMeasured("looped models of two numbers of loops")
    return estimate_of(result["gain_ratio"])


def _deepest(evidence: Evidence, family: str) -> ConditioningGroup:
    """The group of a family with the most loops or layers."""
    result = cast(ConditioningResult, evidence.result("conditioning"))
    evidence.where(family=family)
    groups = [group for group in result["groups"] if group["family"] == family]
    if not groups:
        raise NotMeasured(f"no {family} model of ill-conditioned inputs")
    return max(groups, key=lambda group: group["b"])
