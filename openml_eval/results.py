"""The content of openml.json: its types, and accuracies with intervals from hits row by row; beside
them those of Table 2 of arXiv 2311.12424, as printed in its notebook.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import clustered_bootstrap

from .jobs import RunJob, RunScores, SolverJob, SolverScores, TableSummary
from .scoring import ABSENT, SOLVERS
from .settings import RunSettings

_TABLE_2 = Path(__file__).with_name("table2.json")


class Accuracy(TypedDict):
    """A mean with its 90 % interval or, under the reference's protocol and as published, with its
    population standard deviation over draws of contexts."""

    mean: float
    low: NotRequired[float]
    high: NotRequired[float]
    std: NotRequired[float]


class RunEntry(TypedDict):
    """One trained run; `seconds` of training are None if its folder does not say."""

    path: str
    seed: int
    step: int
    seconds: float | None
    remarks: list[str]


class ModelEntry(TypedDict):
    """One family on one table: `accuracy`, with labels `as_is`, and `swapped`."""

    runs: list[RunEntry]
    accuracy: Accuracy
    as_is: Accuracy
    swapped: Accuracy
    beats_majority: NotRequired[bool]
    published: Accuracy | None


class TableEntry(TypedDict):
    """One held-out table: models by family, and solvers by name."""

    name: str
    label: str
    openml_id: int | None
    rows: int
    features: int
    counts: list[int]
    majority_share: float
    sha256: str
    remarks: list[str]
    models: dict[str, ModelEntry]
    solvers: dict[str, Accuracy]


class Summary(TypedDict):
    """All tables; the solvers' descriptions; for each family the number of tables on which the low
    end of its interval is above the share of the larger class, and the number of tables."""

    tables: list[TableEntry]
    solvers: dict[str, str]
    beats_majority: dict[str, list[int]]


class Result(Summary):
    """The content of openml.json, where the settings are plain values and without `jobs`."""

    settings: RunSettings
    evaluation_seeds: int
    k: int
    scale: str
    resamples: int
    seed: int
    failed: list[str]


Scored = Sequence[tuple[RunJob, RunScores]]
Solved = Sequence[tuple[SolverJob, SolverScores]]


def summary(
    scored: Scored, solved: Solved, tables: Sequence[TableSummary], settings: EvaluationConfig
) -> Summary:
    """The results of all jobs, by held-out table."""
    entries = [_entry(table, scored, solved, settings) for table in tables]
    beats: dict[str, list[bool]] = {}
    for entry in entries:
        for family, model in entry["models"].items():
            if "beats_majority" in model:
                beats.setdefault(family, []).append(model["beats_majority"])
    beats_majority = {family: [sum(each), len(each)] for family, each in beats.items()}
    return {"tables": entries, "solvers": SOLVERS, "beats_majority": beats_majority}


def accuracy(
    values: Sequence[NDArray[Any]], hits: NDArray[Any], settings: EvaluationConfig
) -> Accuracy:
    """Mean and 90 % interval of values [evaluation seeds, groups, group size], one array for each
    training seed, where `hits` of that shape are not ABSENT. Groups, of which no two share a row or
    a context, and training seeds are resampled."""
    mask = hits != ABSENT
    sums = np.stack([np.where(mask, each, 0).sum((0, 2)) for each in values])
    interval = clustered_bootstrap(sums, mask.sum((0, 2)), settings.resamples, settings.seed)
    mean, low, high = map(float, interval)
    return {"mean": mean, "low": low, "high": high}


def _entry(
    table: TableSummary, scored: Scored, solved: Solved, settings: EvaluationConfig
) -> TableEntry:
    runs: dict[str, list[tuple[RunJob, RunScores]]] = {}
    for job, scores in scored:
        if job.table == table:
            runs.setdefault(job.config.model.family, []).append((job, scores))
    paper = printed(table.openml_id)
    return {
        "name": table.name,
        "label": table.label,
        "openml_id": table.openml_id,
        "rows": table.rows,
        "features": table.features,
        "counts": list(table.counts),
        "majority_share": table.majority,
        "sha256": table.sha256,
        "remarks": list(table.remarks),
        "models": {
            family: _model(family_runs, table, paper.get(family), settings)
            for family, family_runs in runs.items()
        },
        "solvers": {
            name: accuracy([hits], hits, settings)
            for job, scores in solved
            if job.table == table
            for name, hits in scores.hits.items()
        },
    }


def _model(
    runs: Scored, table: TableSummary, published: Accuracy | None, settings: EvaluationConfig
) -> ModelEntry:
    """One family's part of a table's entry, over its training seeds."""
    entries: list[RunEntry] = [
        {
            "path": run.path,
            "seed": job.config.seed,
            "step": run.step,
            "seconds": run.seconds,
            "remarks": run.remarks,
        }
        for job, run in runs
    ]
    scores = [run.scores for _, run in runs]
    as_is, swapped = ([each[..., side] for each in scores] for side in (0, 1))
    if runs[0][1].averaged:
        first = _over_draws(as_is)
        return {
            "runs": entries,
            "accuracy": first,
            "as_is": first,
            "swapped": _over_draws(swapped),
            "published": published,
        }
    both = [(a.astype(float) + b) / 2 for a, b in zip(as_is, swapped, strict=True)]
    reference = as_is[0]
    mean = accuracy(both, reference, settings)
    return {
        "runs": entries,
        "accuracy": mean,
        "as_is": accuracy(as_is, reference, settings),
        "swapped": accuracy(swapped, reference, settings),
        "beats_majority": mean["low"] > table.majority,
        "published": published,
    }


def _over_draws(accuracies: Sequence[NDArray[Any]]) -> Accuracy:
    """Mean and standard deviation over draws of the mean over training seeds."""
    by_draw = np.stack(accuracies).mean(0)
    return {"mean": float(by_draw.mean()), "std": float(by_draw.std())}


def printed(openml_id: int | None) -> dict[str, Accuracy]:
    """The accuracies on a held-out table in Table 2, by model family, as in
    `printed(720)["looped"]["mean"]`; empty for a table outside the ten."""
    entry = _table_2()["tables"].get(str(openml_id), {})
    return {family: {"mean": mean, "std": std} for family, (mean, std) in entry.items()}


def source() -> str:
    """The source of these numbers."""
    text: str = _table_2()["source"]
    return text


@cache
def _table_2() -> Any:
    return json.loads(_TABLE_2.read_text(encoding="utf-8"))
