"""The claims of 'How Much Is One Recurrence Worth?' (arXiv 2604.21106) on linear regression in
context: Evidence.results["iso_depth"] is the content of iso_depth.json."""

from __future__ import annotations

import math
from typing import Any

from .claims import Estimate, Evidence, NotMeasured, Paper
from .statistics import over_seeds

_NOTE = "one seed: the interval is over runs alone"


_of_paper = Paper("arXiv 2604.21106", "iso_depth_", size="116 runs of 20 layers on text").claim


def _phi(evidence: Evidence) -> Estimate:
    result = evidence.result("iso_depth")
    phi = result.get("phi")
    if phi is None:
        raise NotMeasured("the runs determine no law")
    low, high = (-math.inf if phi["low"] is None else phi["low"],
                 math.inf if phi["high"] is None else phi["high"])  # fmt: skip
    note = _NOTE
    if "phi" in result["not_determined"]:
        note += "; the losses leave phi open"
    return _sized(Estimate(phi["value"], low, high, 1, note=note), result)


@_of_paper(
    "recurrence_is_worth_something",
    "Running a block again is worth something: it counts for more parameters than it has.",
    "",
    "phi of the fitted law (0: nothing, 1: as much as layers of its own)",
    0.0,
    "above",
    "0.459",
)
def worth_something(evidence: Evidence) -> Estimate:
    """The interval of the fit, over clusters of runs and by its profile."""
    return _phi(evidence)


@_of_paper(
    "recurrence_is_worth_less_than_layers",
    "Running a block again is worth less than layers of its own.",
    "",
    "phi of the fitted law (0: nothing, 1: as much as layers of its own)",
    1.0,
    "below",
    "0.459",
)
def worth_less_than_layers(evidence: Evidence) -> Estimate:
    """The interval of the fit, over clusters of runs and by its profile."""
    return _phi(evidence)


@_of_paper(
    "sharing_costs",
    "At equal depth and equal steps, models that share layers more have more error.",
    "",
    "error above the Bayes error, the most recurrences over one, geometric mean over sizes",
    1.0,
    "above",
    "1.04 (2.4021 / 2.3088 nats at 2.15e19 FLOPs, without E)",
)
def sharing_costs(evidence: Evidence) -> Estimate:
    """Over the widths and steps at which both left the plateau."""
    result = evidence.result("iso_depth")
    if "losses" not in result:
        raise NotMeasured("iso_depth.json is of an earlier version: run the command again")
    excess = {
        (run["r"], run["width"], run["steps"]): run["loss"] - result["bayes"]
        for run in result["losses"]
    }
    most = max(result["settings"]["r"])
    ratios = [
        value / excess[1, width, steps]
        for (r, width, steps), value in excess.items()
        if r == most > 1 and (1, width, steps) in excess
    ]
    if not ratios:
        raise NotMeasured("no size at which models with and without recurrence left the plateau")
    return _sized(over_seeds(ratios, log=True, what="size")._replace(seeds=1, note=_NOTE), result)


def _sized(estimate: Estimate, result: Any) -> Estimate:
    settings = result["settings"]
    size = f"{result['fitted']} runs of {settings['depth']} layers, d = {settings['dims']}"
    return estimate._replace(steps=min(settings["steps"]), size=size)
