"""Claims on the loops that a language model can use after training."""

from __future__ import annotations

from typing import Any

from ..claim import Estimate, Evidence, NotMeasured, claim
from ..measured import estimate_of

_KEEPS = 1.01


def _group(evidence: Evidence, which: str) -> Any:
    """That of the last loop alone, of a window, or of all loops."""
    for each in evidence.result("useful_loops")["groups"]:
        kind = "last" if each["T"] == 1 else "all" if each["T"] >= each["most_loops"] else "window"
        if kind == which:
            evidence.where(name="language", T=each["T"])
            return each
    raise NotMeasured(f"no runs with the loss of {which} loops")


def _keeps(name: str, which: str, text: str) -> None:
    @claim(
        f"language_{name}",
        f"With the loss of {text}, four times the loops of training do not make a language model "
        "worse.",
        source="arXiv 2605.18797, on budgets of loops, and arXiv 2311.12424, on the window",
        quantity="bits per byte after the most loops evaluated over those of training",
        line=_KEEPS,
        holds_if="below",
    )
    def keeps(evidence: Evidence) -> Estimate:
        return estimate_of(_group(evidence, which)["beyond"])


_keeps("last_loop_keeps", "last", "the last loop alone")
_keeps("window_keeps", "window", "a window of loops")
_keeps("all_loops_keep", "all", "all loops")


@claim(
    "language_all_loops_are_reached_sooner",
    "With the loss of all loops a language model comes near its best after fewer loops than with "
    "that of the last alone.",
    source="arXiv 2311.12424, on the window",
    quantity="loops until within 1 % of the least bits per byte, all over last",
    line=1.0,
    holds_if="below",
)
def all_loops_are_reached_sooner(evidence: Evidence) -> Estimate:
    for which in ("last", "all"):
        _group(evidence, which)
    return estimate_of(evidence.result("useful_loops", "all_over_last"))
