"""The claims of arXiv 2604.21106 on one effective depth, on language models of bytes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

from ..claim import Estimate, Evidence, NotMeasured, Paper
from ..statistics import over_seeds

_PLAIN, _TRUNCATED, _LANES = "gradients of all loops", "gradients of half the loops", "lanes"
_NOTE = "one seed: the interval is over runs alone"

_of_paper = Paper(
    "arXiv 2604.21106", "language_iso_depth_", size="116 runs of 20 layers, 4.64e17 to 2.15e19 FLOP"
).claim


def _phi(evidence: Evidence, kind: str) -> Any:
    found = evidence.result("iso_flop", "phi")
    if found.get(kind) is None:
        raise NotMeasured(f"the runs with {kind} determine no law")
    evidence.where(name="language")
    return found[kind]


def _estimate(phi: Any) -> Estimate:
    low = -math.inf if phi["low"] is None else phi["low"]
    high = math.inf if phi["high"] is None else phi["high"]
    reason = phi["not_determined"]
    note = f"{_NOTE}; φ is not determined: {reason}" if reason else _NOTE
    return Estimate(phi["value"], low, high, 1, note=note)


@_of_paper(
    "sharing_costs",
    "At equal FLOPs and depth each further sharing of layers costs: r1 < r2 < r4 < r8.",
    "the empirical minima",
    "least nats a byte over widths, r over the next smaller r: the smallest ratio of a budget, "
    "geometric mean over budgets",
    1.0,
    "above",
    "1.009 (six budgets)",
)
def sharing_costs(evidence: Evidence) -> Estimate:
    """Over budgets at which several r were trained. The order holds at a budget if its smallest
    ratio is above 1; the mean of all ratios would forgive a pair in the wrong order."""
    least = []
    for by_r in evidence.result("iso_flop", "minima").values():
        losses = [loss for _, loss in sorted(by_r.items(), key=lambda item: int(item[0]))]
        if len(losses) > 1:
            least.append(min(after / before for before, after in pairwise(losses)))
    if len(least) < 2:
        raise NotMeasured("fewer than two budgets with several numbers of recurrences")
    evidence.where(name="language")
    return over_seeds(least, log=True, what="budget")._replace(seeds=1, note=_NOTE)


def _worth(name: str, sentence: str, line: float, side: Literal["above", "below"]) -> None:
    quantity = "φ of the fitted law (0: nothing, 1: as much as layers of its own)"

    @_of_paper(f"recurrence_is_worth_{name}", sentence, "", quantity, line, side, "0.459")
    def worth(evidence: Evidence) -> Estimate:
        return _estimate(_phi(evidence, _PLAIN))


_worth(
    "something",
    "Running a block again is worth something: it counts for more parameters than it has.",
    0.0,
    "above",
)
_worth(
    "less_than_layers",
    "Running a block again is worth less than layers of its own.",
    1.0,
    "below",
)


def _difference(evidence: Evidence, kind: str) -> Estimate:
    """φ of a kind less that of all gradients, by the outer ends of both intervals."""
    one, other = (_estimate(_phi(evidence, each)) for each in (kind, _PLAIN))
    return Estimate(
        one.mean - other.mean, one.low - other.high, one.high - other.low, 1, note=_NOTE
    )


@_of_paper(
    "truncated_gradients_are_worth_less",
    "With gradients through half of the loops a recurrence is worth less.",
    "",
    "φ with gradients of half the loops less that with all",
    0.0,
    "below",
    "-0.08 to -0.11 (0.38 or 0.35 against 0.459)",
)
def truncated_gradients_are_worth_less(evidence: Evidence) -> Estimate:
    return _difference(evidence, _TRUNCATED)


@_of_paper(
    "lanes_are_worth_more",
    "With hyper-connections between the loops a recurrence is worth more.",
    "",
    "φ with two lanes less that without",
    0.0,
    "above",
    "0.19 to 0.20 (0.65 or 0.66 against 0.459)",
)
def lanes_are_worth_more(evidence: Evidence) -> Estimate:
    return _difference(evidence, _LANES)
