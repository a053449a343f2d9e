"""Claims on finitely many functions in training (of_runs/diversity.py has the measure)."""

from __future__ import annotations

from typing import cast

from reloop.experiments.named.measures.of_runs.diversity import DiversityGroup, DiversityResult

from .claim import Estimate, Evidence, NotMeasured, claim
from .measured import estimate_of

_RAVENTOS = "arXiv 2306.15063, Figure 2"


@claim(
    "few_functions_are_memorised",
    "A looped model that saw few functions in training treats new ones as these: it predicts like "
    "the posterior mean among them (dMMSE), not like ridge regression.",
    source=_RAVENTOS,
    quantity="mean squared distance from ridge regression over the sum of those from it and dMMSE",
    line=0.5,  # as far from the one as from the other
    holds_if="above",
    published="below the threshold of task diversity models are nearer to dMMSE",
)
def few_functions_are_memorised(evidence: Evidence) -> Estimate:
    return estimate_of(_looped(evidence, fewest=True)["new"]["memorises"])


@claim(
    "many_functions_are_left_behind",
    "A looped model that saw many functions in training solves new ones like ridge regression, "
    "though the posterior mean among those of training would be the better predictor of these.",
    source=_RAVENTOS,
    quantity="mean squared distance from ridge regression over the sum of those from it and dMMSE",
    line=0.5,
    holds_if="below",
    published="above the threshold of task diversity models are nearer to ridge regression",
)
def many_functions_are_left_behind(evidence: Evidence) -> Estimate:
    return estimate_of(_looped(evidence, fewest=False)["new"]["memorises"])


@claim(
    "looped_needs_no_more_functions",
    "After training on the second-least number of functions a looped model errs no more on new "
    "functions than a standard one.",
    source="arXiv 2306.15063 for standard models; 2311.12424, Figure 5, for few prompts",
    quantity="error on new functions of the looped model over that of the standard one",
    line=1.0,
    holds_if="below",
)
def looped_needs_no_more_functions(evidence: Evidence) -> Estimate:
    ratios = cast(DiversityResult, evidence.result("diversity"))["looped_over_standard"]
    counts = sorted(map(int, ratios))
    if len(counts) < 3:
        raise NotMeasured("looped and standard models of at least three numbers of functions")
    for family in ("looped", "standard"):
        evidence.where(family=family, distinct_functions=counts[1])
    return estimate_of(ratios[str(counts[1])])


def _looped(evidence: Evidence, fewest: bool) -> DiversityGroup:
    result = cast(DiversityResult, evidence.result("diversity"))
    groups = [group for group in result["groups"] if group["family"] == "looped"]
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    choose = min if fewest else max
    group = choose(groups, key=lambda group: group["functions"])
    evidence.where(family="looped", distinct_functions=group["functions"])
    return group
