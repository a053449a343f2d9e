"""Claims on prompts longer than those of training (of_runs/length.py has the measure)."""

from __future__ import annotations

from typing import cast

from reloop.experiments.named.measures.of_runs.common import EstimateJson
from reloop.experiments.named.measures.of_runs.length import LengthResult

from .claim import Estimate, Evidence, NotMeasured, claim
from .in_context.paper import NO_WORSE
from .measured import estimate_of

_SOURCE = "arXiv 2409.15647"
_GROWTH = "error of the last query of prompts {} as long as in training over that at its length"


@claim(
    "length_rotary_keeps_its_error",
    "With relative positions a looped model errs no more on prompts twice as long as in training.",
    source=f"{_SOURCE} (arithmetic and copying, without positions)",
    quantity=_GROWTH.format("twice"),
    line=NO_WORSE,
    holds_if="below",
)
def rotary_keeps_its_error(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "llama", 2))


@claim(
    "length_learned_positions_fail",
    "With learned positions its error on such prompts is more than twice as large.",
    source=f"{_SOURCE}, on positions that training never used",
    quantity=_GROWTH.format("twice"),
    line=2.0,
    holds_if="above",
)
def learned_positions_fail(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "gpt2", 2))


@claim(
    "length_looped_errs_less_than_standard",
    "With relative positions a looped model errs less than a standard one on prompts four times as "
    "long as in training.",
    source=f"{_SOURCE}, on looped and standard transformers",
    quantity="error of the last query of prompts four times as long, looped over standard",
    line=1.0,
    holds_if="below",
    published="looped models generalise to longer inputs (other tasks)",
)
def looped_errs_less_than_standard(evidence: Evidence) -> Estimate:
    ratios = _result(evidence)["looped_over_standard"]
    if "llama" not in ratios:
        raise NotMeasured("no looped and standard model with relative positions")
    for family in ("looped", "standard"):
        evidence.where(family=family, block="llama")
    return estimate_of(ratios["llama"])


def _result(evidence: Evidence) -> LengthResult:
    return cast(LengthResult, evidence.result("length"))


def _growth(evidence: Evidence, block: str, times: int) -> EstimateJson:
    """Of the looped model with these blocks."""
    for group in _result(evidence)["groups"]:
        if (group["family"], group["block"]) == ("looped", block):
            evidence.where(family="looped", block=block)
            return group["growth"][str(times)]
    raise NotMeasured(f"no looped model of {block} blocks")
