"""The claims on what loops hold inside, by probes of XᵀY and of the least-squares weights
(arXiv 2311.12424, Figure 8).

Evidence.results["probing"] is a mapping from a member's label to the contents of probing.json, one
for each seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from scipy.special import ndtri

from .claims import Estimate, Evidence, NotMeasured
from .in_context import of_paper
from .statistics import LEVEL, over_seeds

_WHAT = {"gradient": "XᵀY, the gradient at zero,", "least_squares": "the least-squares weights"}
_Z = float(ndtri((1 + LEVEL) / 2))


def _last_over_middle(evidence: Evidence, family: str, target: str) -> Estimate:
    """The probes' error at the last layer (or loop b) over that at the middle one, a value for each
    run."""
    ratios, spreads = [], []
    for label, seeds in _labels(evidence, family).items():
        for probing in _of_label(evidence, label, seeds):
            if target not in probing["targets"]:
                raise NotMeasured(f"{label} was not probed for {target}")
            error, last = probing["targets"][target]["error"], probing["b"]
            middle = last // 2
            if len(error["mean"]) <= last or middle < 1:
                raise NotMeasured(f"{label} was not probed to its end")
            ratio = error["mean"][last] / error["mean"][middle]
            # As if the two errors were independent, which only widens the interval: they are
            # measured on the same prompts.
            relative = [
                (error["high"][i] - error["low"][i]) / (2 * _Z) / error["mean"][i]
                for i in (last, middle)
            ]
            ratios.append(ratio)
            spreads.append(ratio * (relative[0] ** 2 + relative[1] ** 2) ** 0.5)
    return over_seeds(ratios, spreads, log=True)


def _labels(evidence: Evidence, family: str) -> dict[str, int]:
    """The labels of the finished models of a family that were probed, with their seeds."""
    probed = evidence.result("probing")
    labels: dict[str, int] = {}
    for member in evidence.where(family=family, name="linear"):
        if member.label in probed:
            labels[member.label] = labels.get(member.label, 0) + 1
    if not labels:
        raise NotMeasured(f"no probed {family} model")
    return labels


def _of_label(evidence: Evidence, label: str, seeds: int) -> list[Mapping[str, Any]]:
    """The probings of a label; NotMeasured if one is of an unfinished run."""
    probings: list[Mapping[str, Any]] = evidence.result("probing", label)
    if len(probings) > seeds:
        raise NotMeasured(f"{label}: {len(probings)} probings of {seeds} finished runs")
    for probing in probings:
        for remark in probing.get("remarks", ()):
            if "unfinished" in remark:
                raise NotMeasured(f"{label}: {remark}")
    return probings


def _probe_claim(
    family: str, target: str, sentence: str, holds_if: Literal["above", "below"], published: str
) -> None:
    @of_paper(
        f"fig08_{family}_{target}",
        sentence,
        figure="Figure 8",
        quantity=f"error of the probes of {_WHAT[target].rstrip(',')} at the end over that halfway",
        line=1.0,
        holds_if=holds_if,
        published=published,
    )
    def probe(evidence: Evidence) -> Estimate:
        return _last_over_middle(evidence, family, target)


for _target, _looped, _standard in (
    ("gradient", "0.85 (.3596 / .4211)", "1.44 (.6191 / .4307)"),
    ("least_squares", "0.89 (.2983 / .3358)", "1.55 (.5223 / .3363)"),
):
    _probe_claim(
        "looped",
        _target,
        f"A looped model's state tells {_WHAT[_target]} better and better up to the last loop.",
        "below",
        _looped,
    )
    _probe_claim(
        "standard",
        _target,
        f"A standard model's state tells {_WHAT[_target]} best in its middle layers and worse at "
        "the end.",
        "above",
        _standard,
    )
