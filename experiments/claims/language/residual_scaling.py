"""The claims of arXiv 2606.18524 on the best learning rate, on language models of bytes."""

from __future__ import annotations

from typing import Any

from ..claim import Estimate, Evidence, NotMeasured, Paper
from ..statistics import absolute, over_seeds

_of_paper = Paper(
    "arXiv 2606.18524",
    "language_scaling_",
    steps=20_000,
    size="12 to 48 layers, d = 768, FineWeb-Edu",
).claim


def _verdict(evidence: Evidence, kind: str, key: str) -> Any:
    """A movement or a gain; NotMeasured, with its reason, if it is unknown."""
    found = evidence.result("rates", kind)
    if key not in found:
        raise NotMeasured(f"no runs with residual_scaling={key}")
    if found[key]["verdict"] == "unknown":
        raise NotMeasured(found[key]["reason"])
    evidence.where(name="language")
    return found[key]


def _gains(name: str, scaling: str, label: str, published: str = "") -> None:
    @_of_paper(
        name,
        f"At its best learning rate 1/R has fewer bits per byte than {label} with many loops.",
        "Figure 5",
        f"least bits per byte with {label} less those with 1/R, at the most loops",
        0.0,
        "above",
        published,
    )
    def gains(evidence: Evidence) -> Estimate:
        return over_seeds(_verdict(evidence, "gain", scaling)["by_seed"])


_gains("linear_gains", "sqrt", "1/√R", "0.025 nats a token at R = 8")
_gains("linear_gains_over_none", "none", "no scaling")


@_of_paper(
    "linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    "octaves by which the best rate moves either way, most loops against one, linear",
    1.0,  # a step of the grid of rates
    "below",
    "a narrow band",
)
def linear_rate_stays(evidence: Evidence) -> Estimate:
    """The size of the movement."""
    return absolute(over_seeds(_verdict(evidence, "move", "linear")["by_seed"]))


def _falls(scaling: str, label: str) -> None:
    @_of_paper(
        f"{scaling}_rate_falls",
        f"With {label} the best learning rate falls with the number of loops.",
        "Figure 5",
        f"octaves by which the best rate falls, most loops against one, {scaling}",
        0.5,  # half a step of the grid of rates
        "above",
    )
    def falls(evidence: Evidence) -> Estimate:
        found = _verdict(evidence, "move", scaling)["by_seed"]
        return over_seeds([-each for each in found])


_falls("none", "no residual scaling")
_falls("sqrt", "1/√R")
