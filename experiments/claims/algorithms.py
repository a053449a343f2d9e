"""Claims on the algorithm that a trained model's loops run: which solver's steps they resemble
(experiments/named/measures/of_runs/iterates.py)."""

from __future__ import annotations

from typing import Any

from .claim import Estimate, Evidence, NotMeasured, claim
from .select import estimate_of

_FU = "arXiv 2310.17086, section 4"
_ACCELERATION = (
    "growth of the nearest step of {} in the second half of the loops in which the error falls, "
    "over that in the first half"
)


@claim(
    "loop_makes_newton_steps",
    "Each loop of a looped model does the work of more than one step of Newton's method.",
    source=_FU,
    quantity="slope of the nearest Newton step over the loops in which the error falls",
    line=1.0,  # one step a loop is what a loop that computed M ← 2 M − M A M would make
    holds_if="above",
    published="about 3 steps a layer, of a standard transformer's middle layers",
)
def loop_makes_newton_steps(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "newton")["per_loop"])


@claim(
    "newton_step_is_linear",
    "The Newton step that is nearest to a loop grows linearly with the loop, or more slowly.",
    source=_FU,
    quantity=_ACCELERATION.format("Newton's method"),
    line=1.25,  # 1 is linear; the same line parts it from gradient descent below
    holds_if="below",
    published="linear in the layer",
)
def newton_step_is_linear(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "newton")["acceleration"])


@claim(
    "descent_step_accelerates",
    "The step of gradient descent that is nearest to a loop grows faster than linearly.",
    source=_FU,
    quantity=_ACCELERATION.format("gradient descent"),
    line=1.25,
    holds_if="above",
    published="exponential in the layer",
)
def descent_step_accelerates(evidence: Evidence) -> Estimate:
    return estimate_of(_nearest(evidence, "gradient_descent")["acceleration"])


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


def _nearest(evidence: Evidence, method: str) -> Any:
    """A method's iterates beside the looped model with the most loops in training."""
    found = evidence.result("iterates")["groups"]
    evidence.where(family="looped")  # whose seeds and steps the verdict rests on
    groups = [group for group in found if group["family"] == "looped"]
    if not groups:
        raise NotMeasured("no looped model was compared with iterates")
    return max(groups, key=lambda group: group["b"])["methods"][method]


_GATMIRY = "arXiv 2410.08292, theorem on the global minimiser"


@claim(
    "linear_attention_learns_inverse_covariance",
    "Looped linear attention learns a preconditioner close to the inverse of the inputs' "
    "covariance.",
    source=_GATMIRY,
    quantity="condition number of the inputs' covariance as preconditioned, where that of the "
    "inputs is 10",
    line=2.0,  # 10 is no preconditioner, 1 the exact inverse; 3.2 would be half of the way in logs
    holds_if="below",
    published="close to 1 for long prompts",
)
def linear_attention_learns_inverse_covariance(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["spread"])


@claim(
    "linear_attention_reaches_preconditioned_descent",
    "After its b loops looped linear attention is as good as b steps of gradient descent "
    "preconditioned by the inverse covariance, at the best rate for b steps.",
    source=_GATMIRY,
    quantity="error at the last query over that of preconditioned gradient descent",
    line=1.25,  # the margin that every 'as good as' of these experiments has
    holds_if="below",
    published="the global minimiser is this method",
)
def linear_attention_reaches_preconditioned_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["over_theory"])


@claim(
    "linear_attention_beats_plain_descent",
    "After its b loops looped linear attention has less than half the error of b steps of plain "
    "gradient descent at its best rate.",
    source=_GATMIRY,
    quantity="error at the last query over that of plain gradient descent",
    line=0.5,
    holds_if="below",
)
def linear_attention_beats_plain_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["over_descent"])


def _learned(evidence: Evidence) -> Any:
    """What the loop of linear attention with the fewest loops in training learned: the more loops,
    the less they need a preconditioner."""
    if not (groups := evidence.result("preconditioner")["groups"]):
        raise NotMeasured("no loop of linear attention was measured")
    group = min(groups, key=lambda group: group["b"])
    evidence.where(injection="linear_attention", b=group["b"])
    return group
