"""What other commands measured: what loops hold inside, by probes of XᵀY and of the least-squares
weights (Figure 8), and transfer to real tables (Table 2).

Evidence.results["probing"] is a mapping from a member's label to the contents of probing.json, one
for each seed; Evidence.results["openml"] is the content of openml.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from scipy.special import ndtri

from ..claim import Estimate, Evidence, NotMeasured
from ..statistics import LEVEL, over_seeds
from .accuracy import of_paper

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


@of_paper(
    "table2_looped_no_worse",
    "On tables that it was not trained on, a looped model is at least as accurate as a standard "
    "one.",
    figure="Table 2",
    quantity="accuracy, looped less standard, mean over held-out tables",
    line=0.0,
    holds_if="above",
    published="0.026 (mean of ten)",
    steps=100_000,
    size="10 tables",
)
def looped_no_worse(evidence: Evidence) -> Estimate:
    """Tables are what is resampled: their differences are far larger than those of draws."""
    differences, spreads, steps, seeds = [], [], list[int](), list[int]()
    for table in evidence.result("openml")["tables"]:
        models = table["models"]
        if not {"looped", "standard"} <= models.keys():
            continue
        for family in ("looped", "standard"):
            _check(table["label"], family, models[family])
            steps += [run["step"] for run in models[family]["runs"]]
            seeds.append(len(models[family]["runs"]))
        looped, standard = (models[family]["accuracy"] for family in ("looped", "standard"))
        differences.append(looped["mean"] - standard["mean"])
        spreads.append((_error(looped) ** 2 + _error(standard) ** 2) ** 0.5)
    if not differences:
        raise NotMeasured("no table with a looped and a standard model")
    estimate = over_seeds(differences, spreads, what="table")
    tables = len(differences)
    note = "one seed" if min(seeds) == 1 else ""
    if tables == 1:
        note = "; ".join(filter(None, [note, "one table: it says nothing of others"]))
    return estimate._replace(
        seeds=min(seeds), steps=min(steps), size=f"{tables} table{'s'[: tables > 1]}", note=note
    )


def _check(label: str, family: str, entry: Mapping[str, Any]) -> None:
    """Raises NotMeasured for models without finished trainings."""
    if not entry["runs"]:
        raise NotMeasured(f"{label}: no {family} model")
    for run in entry["runs"]:
        remarks = [remark for remark in run["remarks"] if "unfinished" in remark]
        if remarks or not run["step"]:
            raise NotMeasured(f"{label}, {family}: {remarks[0] if remarks else 'untrained'}")


def _error(accuracy: Mapping[str, float]) -> float:
    """The standard error of an accuracy from its 90 % interval, or from its spread over draws."""
    if "low" in accuracy:
        return (accuracy["high"] - accuracy["low"]) / (2 * _Z)
    return accuracy.get("std", 0.0)
