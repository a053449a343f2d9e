"""The content of openml.json from hits row by row: accuracies with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.bootstrap import clustered_bootstrap

from .jobs import RunJob, SolverJob
from .scoring import ABSENT
from .solvers import SOLVERS
from .table2 import printed
from .table_summary import TableSummary

JobResults = Sequence[tuple[RunJob | SolverJob, dict[str, Any]]]


def summary(
    results: JobResults, tables: Sequence[TableSummary], settings: EvaluationConfig
) -> dict[str, Any]:
    """`tables`, an entry for each held-out table; `solvers`, their descriptions; and
    `beats_majority`: for each family the number of tables on which the low end of its interval is
    above the share of the larger class, and the number of tables.
    """
    entries = [_entry(table, results, settings) for table in tables]
    families = {family: None for entry in entries for family in entry["models"]}
    beats_majority = {}
    for family in families:
        models = [entry["models"][family] for entry in entries if family in entry["models"]]
        if all("beats_majority" in model for model in models):
            beats_majority[family] = [sum(model["beats_majority"] for model in models), len(models)]
    return {"tables": entries, "solvers": SOLVERS, "beats_majority": beats_majority}


def accuracy(
    values: Sequence[NDArray[Any]], hits: NDArray[Any], settings: EvaluationConfig
) -> dict[str, float]:
    """Mean and 90 % interval of values [evaluation seeds, groups, group size], one array for each
    training seed, where `hits` of that shape are not ABSENT. Groups, of which no two share a row or
    a context, and training seeds are resampled."""
    mask = hits != ABSENT
    sums = np.stack([np.where(mask, each, 0).sum((0, 2)) for each in values])
    interval = clustered_bootstrap(sums, mask.sum((0, 2)), settings.resamples, settings.seed)
    return {name: float(value) for name, value in interval._asdict().items()}


def _entry(table: TableSummary, results: JobResults, settings: EvaluationConfig) -> dict[str, Any]:
    models: dict[str, list[tuple[RunJob, dict[str, Any]]]] = {}
    solvers: dict[str, dict[str, float]] = {}
    for job, result in results:
        if job.table != table:
            continue
        if isinstance(job, RunJob):
            models.setdefault(job.config.model.family, []).append((job, result))
        else:
            for name, hits in result["hits"].items():
                solvers[name] = accuracy([hits], hits, settings)
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
            family: _model(runs, table, settings)
            | {"published": paper[family]._asdict() if family in paper else None}
            for family, runs in models.items()
        },
        "solvers": solvers,
    }


def _model(
    runs: Sequence[tuple[RunJob, Mapping[str, Any]]],
    table: TableSummary,
    settings: EvaluationConfig,
) -> dict[str, Any]:
    """One family's part of a table's entry, over its training seeds."""
    content: dict[str, Any] = {
        "runs": [
            {
                "path": result["path"],
                "seed": job.config.seed,
                "step": result["step"],
                "seconds": result["seconds"],
                "remarks": result.get("remarks", []),
            }
            for job, result in runs
        ]
    }
    if "accuracies" in runs[0][1]:
        by_draw = np.stack([result["accuracies"] for _, result in runs]).mean(0)
        as_is_accuracy, swapped_accuracy = (
            {"mean": float(mean), "std": float(std)}
            for mean, std in zip(by_draw.mean(0), by_draw.std(0), strict=True)
        )
        return content | {
            "accuracy": as_is_accuracy,
            "as_is": as_is_accuracy,
            "swapped": swapped_accuracy,
        }
    hits = [result["hits"] for _, result in runs]
    as_is, swapped = ([each[..., side] for each in hits] for side in (0, 1))
    both = [(a.astype(float) + b) / 2 for a, b in zip(as_is, swapped, strict=True)]
    reference = as_is[0]
    interval = accuracy(both, reference, settings)
    return content | {
        "accuracy": interval,
        "as_is": accuracy(as_is, reference, settings),
        "swapped": accuracy(swapped, reference, settings),
        "beats_majority": interval["low"] > table.majority,
    }
