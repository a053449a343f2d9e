"""The claim on transfer to real tables (arXiv 2311.12424, Table 2).

Evidence.results["openml"] is the content of openml.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.special import ndtri

from .claims import Estimate, Evidence, NotMeasured
from .in_context import of_paper
from .statistics import LEVEL, over_seeds

_Z = float(ndtri((1 + LEVEL) / 2))


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
