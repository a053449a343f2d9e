"""Claims on several function classes in training (of_runs/mixture.py has the measure)."""

from __future__ import annotations

from typing import cast

from reloop.experiments.named.measures.of_runs.mixture import MixtureGroup, MixtureResult

from .claim import Estimate, Evidence, NotMeasured, claim
from .measured import estimate_of

_YADLOWSKY = "arXiv 2311.00871"


@claim(
    "mixture_is_told_apart",
    "A looped model of several function classes is as good on each, at the last query, as a looped "
    "model of that class alone: it finds the class from the pairs.",
    source=f"{_YADLOWSKY}, section 3, for standard models; 2306.04891 for the selection",
    quantity="largest ratio over classes of its error to that of the model of the class alone",
    line=1.25,  # as for models that match elsewhere
    holds_if="below",
    published="nearly as good as models of one class",
)
def mixture_is_told_apart(evidence: Evidence) -> Estimate:
    group = _looped(evidence)
    for name in group["over_alone"]:
        evidence.where(family="looped", name=name)
    if set(group["over_alone"]) != set(group["errors"]) or group["worst"] is None:
        raise NotMeasured("looped models of each class alone")
    return estimate_of(group["worst"])


@claim(
    "mixture_looped_matches_standard",
    "On several function classes a looped model is as good as a standard one.",
    source="arXiv 2311.12424 for one class",
    quantity="error of looped over standard at the last query, means over classes",
    line=1.25,
    holds_if="below",
)
def mixture_looped_matches_standard(evidence: Evidence) -> Estimate:
    ratio = cast(MixtureResult, evidence.result("mixture"))["looped_over_standard"]
    if ratio is None:
        raise NotMeasured("a looped and a standard model of the mixture")
    for family in ("looped", "standard"):
        evidence.where(family=family, name="mixture")
    return estimate_of(ratio)


@claim(
    "mixture_fails_between_classes",
    "A looped model of several function classes does worse on sums of functions of all of them, of "
    "which training had none, than on the classes.",
    source=f"{_YADLOWSKY}, section 4, for standard models",
    quantity="error on the sums over the mean of the errors on the classes, at the last query",
    line=1.25,
    holds_if="above",
    published="combinations of classes are predicted poorly",
)
def mixture_fails_between_classes(evidence: Evidence) -> Estimate:
    return estimate_of(_looped(evidence)["sums"])


def _looped(evidence: Evidence) -> MixtureGroup:
    for group in cast(MixtureResult, evidence.result("mixture"))["groups"]:
        if group["family"] == "looped":
            evidence.where(family="looped", name="mixture")
            return group
    raise NotMeasured("no looped model of the mixture")
