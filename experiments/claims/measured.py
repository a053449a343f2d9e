"""How a claim reads what a measure of experiments/measures/ found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reloop.experiments.measures.common import EstimateJson

from .claim import Estimate, Evidence, NotMeasured


def result_of(evidence: Evidence, measure: str) -> Mapping[str, Any]:
    """The result of a measure by its name; NotMeasured if there is none."""
    if (result := evidence.results.get(measure)) is None:
        raise NotMeasured(f"measure {measure} has no result")
    found: Mapping[str, Any] = result
    return found


def estimate_of(values: EstimateJson) -> Estimate:
    """A number with its interval; NotMeasured if it is not finite."""
    mean, low, high = values["mean"], values["low"], values["high"]
    if mean is None or low is None or high is None:
        raise NotMeasured("the quantity is not finite")
    return Estimate(mean, low, high, values["seeds"])
