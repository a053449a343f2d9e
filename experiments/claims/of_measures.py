"""Claims on what the measures of experiments/named/measures/of_runs found of the same name:
conditioning, diversity, mixture, length, halting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .claim import Estimate, Evidence, NotMeasured, claim
from .in_context.accuracy import NO_WORSE
from .select import estimate_of


def _groups(evidence: Evidence, measure: str, family: str = "looped") -> list[Any]:
    """The groups of a family that a measure was made of."""
    found = evidence.result(measure)["groups"]
    return [group for group in found if group["family"] == family]


def _both(evidence: Evidence, **settings: Any) -> None:
    """Note that a verdict rests on the looped and the standard runs with these settings."""
    for family in ("looped", "standard"):
        evidence.where(family=family, **settings)


_GATMIRY = "arXiv 2410.21698"
_RISE = "largest factor by which the error of a loop exceeds an earlier one's, up to b"


@claim(
    "looped_error_falls_with_every_loop",
    "The error of a looped model on ill-conditioned inputs never rises from loop to loop, up to "
    "those that it was trained with.",
    source=f"{_GATMIRY}, theorem on monotone loss",
    quantity=_RISE,
    line=1.1,  # a tenth: the noise of an error that is level, not a rise
    holds_if="below",
    published="the loss falls monotonically with the depth",
)
def looped_error_falls_with_every_loop(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "looped")["rise"])


@claim(
    "standard_error_rises_between_layers",
    "The error of a standard model on ill-conditioned inputs rises between some of its layers.",
    source=f"{_GATMIRY}, on models without weight sharing",
    quantity=_RISE,
    line=1.1,
    holds_if="above",
    published="looped models alone are monotone",
)
def standard_error_rises_between_layers(evidence: Evidence) -> Estimate:
    return estimate_of(_deepest(evidence, "standard")["rise"])


@claim(
    "ill_conditioned_inputs_need_depth",
    "More loops help more on ill-conditioned inputs than on well-conditioned ones.",
    source=f"{_GATMIRY}, lower bounds log κ and √κ of the depth",
    quantity="error with few loops over that with many, at the largest condition number of "
    "training over that at the smallest",
    line=1.0,
    holds_if="above",
    published="the depth that is needed grows with κ",
)
def ill_conditioned_inputs_need_depth(evidence: Evidence) -> Estimate:
    gain_ratio = evidence.result("conditioning")["gain_ratio"]
    evidence.where(family="looped")
    if gain_ratio is None:
        raise NotMeasured("looped models of two numbers of loops")
    return estimate_of(gain_ratio)


def _deepest(evidence: Evidence, family: str) -> Any:
    """The group of a family with the most loops or layers."""
    groups = _groups(evidence, "conditioning", family)
    evidence.where(family=family)
    if not groups:
        raise NotMeasured(f"no {family} model of ill-conditioned inputs")
    return max(groups, key=lambda group: group["b"])


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
    return estimate_of(_trained_on(evidence, min)["new"]["memorises"])


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
    return estimate_of(_trained_on(evidence, max)["new"]["memorises"])


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
    ratios = evidence.result("diversity")["looped_over_standard"]
    counts = sorted(map(int, ratios))
    if len(counts) < 3:
        raise NotMeasured("looped and standard models of at least three numbers of functions")
    _both(evidence, distinct_functions=counts[1])
    return estimate_of(ratios[str(counts[1])])


def _trained_on(evidence: Evidence, choose: Callable[..., Any]) -> Any:
    """The looped models of the fewest (min) or the most functions (max)."""
    groups = _groups(evidence, "diversity")
    if len(groups) < 2:
        raise NotMeasured("looped models of at least two numbers of functions")
    group = choose(groups, key=lambda group: group["functions"])
    evidence.where(family="looped", distinct_functions=group["functions"])
    return group


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
    group = _of_mixture(evidence)
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
    ratio = evidence.result("mixture")["looped_over_standard"]
    if ratio is None:
        raise NotMeasured("a looped and a standard model of the mixture")
    _both(evidence, name="mixture")
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
    return estimate_of(_of_mixture(evidence)["sums"])


def _of_mixture(evidence: Evidence) -> Any:
    """The looped model of the mixture."""
    for group in _groups(evidence, "mixture"):
        evidence.where(family="looped", name="mixture")
        return group
    raise NotMeasured("no looped model of the mixture")


_FAN = "arXiv 2409.15647"
_GROWTH = "error of the last query of prompts {} as long as in training over that at its length"


@claim(
    "length_rotary_keeps_its_error",
    "With relative positions a looped model errs no more on prompts twice as long as in training.",
    source=f"{_FAN} (arithmetic and copying, without positions)",
    quantity=_GROWTH.format("twice"),
    line=NO_WORSE,
    holds_if="below",
)
def rotary_keeps_its_error(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "llama"))


@claim(
    "length_learned_positions_fail",
    "With learned positions its error on such prompts is more than twice as large.",
    source=f"{_FAN}, on positions that training never used",
    quantity=_GROWTH.format("twice"),
    line=2.0,
    holds_if="above",
)
def learned_positions_fail(evidence: Evidence) -> Estimate:
    return estimate_of(_growth(evidence, "gpt2"))


@claim(
    "length_looped_errs_less_than_standard",
    "With relative positions a looped model errs less than a standard one on prompts four times as "
    "long as in training.",
    source=f"{_FAN}, on looped and standard transformers",
    quantity="error of the last query of prompts four times as long, looped over standard",
    line=1.0,
    holds_if="below",
    published="looped models generalise to longer inputs (other tasks)",
)
def looped_errs_less_than_standard(evidence: Evidence) -> Estimate:
    ratios = evidence.result("length")["looped_over_standard"]
    if "llama" not in ratios:
        raise NotMeasured("no looped and standard model with relative positions")
    _both(evidence, block="llama")
    return estimate_of(ratios["llama"])


def _growth(evidence: Evidence, block: str) -> Any:
    """The growth of the looped model with these blocks, on prompts twice as long."""
    for group in _groups(evidence, "length"):
        if group["block"] == block:
            evidence.where(family="looped", block=block)
            return group["growth"]["2"]
    raise NotMeasured(f"no looped model of {block} blocks")


_HALTING = "arXiv 1603.08983 (adaptive computation time) and 2409.15647 (loops by need)"
_AT = "mean loops for an error at most 5 % above that after b loops, linear functions, {}"


@claim(
    "halting_beats_a_fixed_number",
    "Halting each prediction once its state hardly changes takes fewer loops than a number that is "
    "the same for all, at the same error.",
    source=_HALTING,
    quantity=_AT.format("measured halting over a fixed number"),
    line=1.0,
    holds_if="below",
)
def halting_beats_a_fixed_number(evidence: Evidence) -> Estimate:
    return _of_linear(evidence, "measured_over_fixed")


@claim(
    "learned_halting_beats_measured",
    "Halting by a learned readout of the state takes fewer loops than halting once it hardly "
    "changes, at the same error.",
    source=_HALTING,
    quantity=_AT.format("learned halting over measured"),
    line=1.0,
    holds_if="below",
)
def learned_halting_beats_measured(evidence: Evidence) -> Estimate:
    return _of_linear(evidence, "learned_over_measured")


def _of_linear(evidence: Evidence, key: str) -> Estimate:
    """A ratio of the looped model of linear functions."""
    for group in evidence.result("halting")["groups"]:
        if group["task"] == "linear":
            evidence.where(family="looped", name="linear")
            return estimate_of(group[key])
    raise NotMeasured("no looped model of linear functions")
