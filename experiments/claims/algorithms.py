"""Claims on the algorithm that a trained model's loops run: which solver's steps they resemble
(experiments/measures/iterates.py)."""

from __future__ import annotations

from typing import cast

from reloop.experiments.measures.iterates import GroupResult, IteratesResult, NearestIterate

from .claim import Estimate, Evidence, NotMeasured, claim
from .measured import estimate_of, result_of

_FU = "arXiv 2310.17086, section 4"


@claim(
    "loop_makes_newton_steps",
    "Each loop of a looped model does the work of more than one step of Newton's method.",
    source=_FU,
    quantity="slope of the nearest Newton step over the loops that count in the loss",
    line=1.0,  # one step a loop is what a loop that computed M ← 2 M − M A M would make
    holds_if="above",
    published="about 3 steps a layer, of a standard transformer's middle layers",
)
def loop_makes_newton_steps(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "newton")["per_loop"])


@claim(
    "newton_step_in_proportion",
    "The Newton step that is nearest to a loop grows in proportion to the loop at most.",
    source=_FU,
    quantity="factor by which the nearest Newton step grows from the first loop in the loss to b, "
    "over that of the loops",
    line=1.5,  # 1 is proportional; a step that doubled with each loop would be far above
    holds_if="below",
    published="linear in the layer",
)
def newton_step_in_proportion(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "newton")["growth"])


@claim(
    "descent_step_outgrows_loops",
    "The step of gradient descent that is nearest to a loop grows far faster than the loop.",
    source=_FU,
    quantity="factor by which the nearest step of gradient descent grows from the first loop in "
    "the loss to b, over that of the loops",
    line=2.0,  # twice what a loop of a fixed number of gradient steps would make
    holds_if="above",
    published="exponential in the layer",
)
def descent_step_outgrows_loops(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "gradient_descent")["growth"])


@claim(
    "newton_nearer_than_descent",
    "The loops of a looped model err as Newton's iterates do, more than as those of gradient "
    "descent with one rate for all prompts.",
    source="arXiv 2306.00297 (preconditioned gradient descent) against 2310.17086 (Newton)",
    quantity="cosine of errors with the nearest Newton iterate less that with the nearest iterate "
    "of gradient descent",
    line=0.0,
    holds_if="above",
    published="Newton is nearer",
)
def newton_nearer_than_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "newton")["nearer"])


def _nearest(evidence: Evidence, method: str) -> NearestIterate:
    """A method's iterates beside the looped model with the most loops in training."""
    result = cast(IteratesResult, result_of(evidence, "iterates"))
    evidence.where(family="looped")  # whose seeds and steps the verdict rests on
    groups: list[GroupResult] = [g for g in result["groups"] if g["family"] == "looped"]
    if not groups:
        raise NotMeasured("no looped model was compared with iterates")
    return max(groups, key=lambda group: group["b"])["methods"][method]
