"""How a claim reads what a measure of experiments/named/measures/of_runs/ found."""

from __future__ import annotations

from reloop.experiments.named.measures.of_runs.common import EstimateJson

from .claim import Estimate, NotMeasured


def estimate_of(values: EstimateJson) -> Estimate:
    """A number with its interval; NotMeasured if it is not finite."""
    mean, low, high = values["mean"], values["low"], values["high"]
    if mean is None:
        raise NotMeasured("the quantity is not finite")
    if low is None or high is None:
        raise NotMeasured(values["note"] or "its interval is not finite")
    return Estimate(mean, low, high, values["seeds"], note=values["note"])
