"""Claims on the plateau at the start of training (of_runs/plateau.py has the measure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats

from .claim import Estimate, Evidence, NotMeasured, claim
from .select import check_same_prompts, estimate_of, group, over_examples
from .statistics import hierarchical_bootstrap

_PLATEAU = "arXiv 2506.13688"
_SHIFTS = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")


@claim(
    "attention_rises_on_the_plateau",
    "Attention to the previous token, which binds x and y to a pair, rises before the error falls.",
    source=f"{_PLATEAU}, on the attention that a task needs",
    quantity="share of the attention's rise that is done when a tenth of the error's fall is, with "
    "Adam",
    line=0.1,  # both at the same time
    holds_if="above",
    published="attention makes progress during the plateau",
    published_size="one layer, other tasks",
)
def attention_rises_on_the_plateau(evidence: Evidence) -> Estimate:
    return estimate_of(_with(evidence, "adam")["attention_done"])


@claim(
    "states_are_parallel_on_the_plateau",
    "On the plateau the states of different queries are nearly parallel.",
    source=f"{_PLATEAU}, on the collapse of representations",
    quantity="mean cosine between the states of different queries when a tenth of the error's fall "
    "is done, with Adam",
    line=0.9,
    holds_if="above",
    published="nearly parallel",
    published_size="one layer, other tasks",
)
def states_are_parallel_on_the_plateau(evidence: Evidence) -> Estimate:
    return estimate_of(_with(evidence, "adam")["parallel"])


@claim(
    "muon_leaves_the_plateau_first",
    "Muon leaves the plateau after fewer steps than Adam.",
    source="arXiv 2601.13474 (proved for linear attention)",
    quantity="step at which half of the error's fall is done, Muon over Adam",
    line=1.0,
    holds_if="below",
    published="fewer steps than Adam",
)
def muon_leaves_the_plateau_first(evidence: Evidence) -> Estimate:
    ratio = evidence.result("plateau")["muon_over_adam"]
    if ratio is None:
        raise NotMeasured("no run of Muon beside one of Adam")
    for optimizer in ("muon", "adam"):
        _with(evidence, optimizer)
    return estimate_of(ratio)


@claim(
    "muon_suffers_more_from_shifts",
    "Inputs unlike those of training raise the error of a model trained by Muon by a larger factor "
    "than that of one trained by Adam for as many steps.",
    source="arXiv 2603.00742: Muon lacks the bias to simple solutions",
    quantity="error on shifted inputs over that on inputs of training, Muon over Adam, geometric "
    "mean over four shifts",
    line=1.0,
    holds_if="above",
    published="more prone to spurious features (other tasks)",
)
def muon_suffers_more_from_shifts(evidence: Evidence) -> Estimate:
    trained = [group(evidence, optimizer=_name(evidence, name)) for name in ("muon", "adam")]
    check_same_prompts(*trained)
    names = ("model_at_b", *(f"{shift}/model_at_b" for shift in _SHIFTS))
    parts = [np.stack([over_examples(each, name) for name in names], -1) for each in trained]

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = [np.log(mean[..., 1:]).mean(-1) - np.log(mean[..., 0]) for mean in means]
        return np.asarray(np.exp(logs[0] - logs[1]))

    return hierarchical_bootstrap(parts, statistic, log=True)


def _with(evidence: Evidence, optimizer: str) -> Any:
    """The group of an optimiser, whose runs the verdict rests on."""
    for found in evidence.result("plateau")["groups"]:
        if found["optimizer"] == optimizer:
            evidence.where(optimizer=_name(evidence, optimizer))
            return found
    raise NotMeasured(f"no run of {optimizer.capitalize()} with snapshots")


def _name(evidence: Evidence, optimizer: str) -> str:
    """What the runs call it: adam, or adamw."""
    members = [*evidence.members, *(each.member for each in evidence.unfinished)]
    names = {member.config.training.optimizer for member in members}
    return "adamw" if optimizer == "adam" and "adamw" in names else optimizer
