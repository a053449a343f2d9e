"""The claims of 'Simply Stabilizing the Loop via Fully Looped Transformer' (arXiv 2605.18797),
Table 1, on linear regression in context: Evidence.results["stability"]["variants"]."""

from __future__ import annotations

from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats

from .claims import Estimate, Evidence, NotMeasured, Paper
from .statistics import over_seeds

# 1.04 is the largest ratio of FLT, and of LT_i from 3 loops to 9, in Table 1; LT's is 1.16.
_KEEPS = 1.1


_of_paper = Paper("arXiv 2605.18797", "fully_looped_", steps=4848, size="6 layers, d = 384").claim


def _result(evidence: Evidence) -> Any:
    """The variants; NotMeasured if a model of one loop has not learned either."""
    result = evidence.result("stability", "variants")
    plain = _errors(result["plain"], "one loop")
    initial = np.mean([cell["initial"] for cell in result["variants"]["LT"].values()])
    if plain.mean() > result["left_below"] * initial:
        raise NotMeasured("one loop is still on the plateau: too few steps")
    return result


def _final(result: Any, variant: str, loops: int) -> Floats:
    """The final errors of a variant, [seeds], at the `loops`-th number of loops."""
    K = result["loops"][loops]
    return _errors(result["variants"][variant][str(K)]["error"], f"{variant}, K = {K}")


def _errors(values: list[float | None], what: str) -> Floats:
    if any(value is None for value in values):
        raise NotMeasured(f"{what}: a run's error is not finite")
    return np.array(values, dtype=np.float64)


def _ratio(result: Any, above: Floats, below: Floats) -> Estimate:
    """The ratio of two errors of the same seeds."""
    if len(result["loops"]) < 2:
        raise NotMeasured("one number of loops")
    estimate = over_seeds(above / below, log=True)
    return estimate._replace(steps=result["steps"], size="2 layers, d = 32")


@_of_paper(
    "LT_worsens",
    "A plain looped transformer (LT) gets worse with more loops.",
    "Table 1",
    "final error, the most loops over the fewest, LT",
    1.0,
    "above",
    "1.16 (perplexity 78.79 / 67.80, 9 loops against 3)",
)
def lt_worsens(evidence: Evidence) -> Estimate:
    """Between the loops that were tried."""
    result = _result(evidence)
    return _ratio(result, _final(result, "LT", -1), _final(result, "LT", 0))


@_of_paper(
    "LT_worse_than_one_loop",
    "A plain looped transformer (LT) of many loops is worse than one of a single loop.",
    "Table 1",
    "final error, LT at the most loops over one loop",
    1.0,
    "above",
    "",
)
def lt_worse_than_one_loop(evidence: Evidence) -> Estimate:
    """One loop is the same model for all variants."""
    result = _result(evidence)
    return _ratio(result, _final(result, "LT", -1), _errors(result["plain"], "one loop"))


def _keeps(variant: str, published: str) -> None:
    @_of_paper(
        f"{variant}_keeps",
        f"With more loops {variant} does not get worse.",
        "Table 1",
        f"final error, the most loops over the fewest, {variant}",
        _KEEPS,
        "below",
        published,
    )
    def keeps(evidence: Evidence) -> Estimate:
        result = _result(evidence)
        few = _final(result, variant, 0)
        cell = result["variants"][variant][str(result["loops"][0])]
        if few.mean() > result["left_below"] * np.mean(cell["initial"]):
            raise NotMeasured(f"{variant} is on the plateau with the fewest loops already")
        return _ratio(result, _final(result, variant, -1), few)


_keeps("FLT", "1.01 (perplexity 63.29 / 62.76)")
_keeps("LT_i", "0.99 (perplexity 62.31 / 62.76)")


@_of_paper(
    "FLT_below_LT",
    "With many loops the fully looped transformer has less error than the plain one.",
    "Table 1",
    "final error at the most loops, FLT over LT",
    1.0,
    "below",
    "0.80 (perplexity 63.29 / 78.79, 9 loops)",
)
def flt_below_lt(evidence: Evidence) -> Estimate:
    """The same seeds of both."""
    result = _result(evidence)
    return _ratio(result, _final(result, "FLT", -1), _final(result, "LT", -1))
