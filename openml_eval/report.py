"""Leave-one-out as text, in the layout of Table 2, and as a panel, beside that table's numbers."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Interval
from looplab.evaluation.remarks import shared
from looplab.show.panel import Curve, Panel
from looplab.show.tables import Part, Table, document

_TABLE_2 = json.loads(Path(__file__).with_name("table2.json").read_text(encoding="utf-8"))
Result = Mapping[str, Any]  # the content of openml.json


def report(result: Result, form: TableFormat = "text") -> str:
    """The table, and below it a caption and the remarks on tables and runs."""
    columns = _columns(result)
    rows = []
    run_remarks = {}
    beats = defaultdict(list)  # the larger class, by family
    for index, entry in enumerate(result["tables"]):
        row = [entry["label"], f"{entry['rows']:,}", str(entry["features"])]
        for label, values in columns.items():
            row.append(_text(values[index], label in entry["models"]))
        rows.append(row)
        for family, model in entry["models"].items():
            beats[family].append(model["beats_majority"])
            for run in model["runs"]:
                name = f"{entry['label']}, {family}, seed {run['seed']}"
                run_remarks[name] = run["remarks"]
    head = ["held out", "rows", "features", *columns]
    lines: list[Part] = [Table(head, rows, spare=("features", "rows")), _caption(result)]
    for family, outcomes in beats.items():
        if None not in outcomes:
            count = f"{sum(outcomes)} of {len(outcomes)} tables"
            lines.append(f"{family} beats the larger class on {count} beyond its interval")
    lines += shared(run_remarks)
    lines += shared({entry["label"]: entry["remarks"] for entry in result["tables"]})
    lines += [f"failed: {line}" for line in result["failed"]]
    return document(lines, form)


def _columns(result: Result) -> dict[str, list[Any]]:
    """The accuracies on every table by label, None where there is none: of each family, as
    published, of each solver, of the larger class."""
    entries = result["tables"]
    families = dict.fromkeys(family for entry in entries for family in entry["models"])
    solvers = dict.fromkeys(solver for entry in entries for solver in entry["solvers"])
    columns = {}
    for family in families:
        models = [entry["models"].get(family, {}) for entry in entries]
        columns[family] = [model.get("accuracy") for model in models]
    for family in families:
        models = [entry["models"].get(family, {}) for entry in entries]
        published = [model.get("published") for model in models]
        if any(published):
            columns[f"{family}, paper"] = published
    for solver in solvers:
        columns[solver] = [entry["solvers"].get(solver) for entry in entries]
    columns["larger class"] = [{"mean": entry["majority_share"]} for entry in entries]
    return columns


def _text(value: Mapping[str, float] | None, with_interval: bool) -> str:
    if value is None:
        return "-"
    if not with_interval:
        return f"{value['mean']:.3f}"
    if "std" in value:
        return f"{value['mean']:.3f} ± {value['std']:.3f}"
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def _caption(result: Result) -> str:
    k = result["k"]
    draws = result["evaluation_seeds"]
    if result["settings"]["protocol"] == "reference":
        text = (
            "Accuracy under the published protocol, flaws included: of a random 5 % of the "
            f"held-out table, each row from {k} others of these 5 %, all standardised by the whole "
            "table and with labels as they are; mean ± population standard deviation over "
            f"{draws} draws of contexts."
        )
    else:
        averaged = "the mean over labels as they are and swapped"
        if result["settings"].get("run"):
            averaged = f"by LoopedClassifier with n_orders={result['settings']['n_orders']}"
        solvers = "; ".join(f"{name}: {what}" for name, what in result["solvers"].items())
        text = (
            f"Accuracy on all rows of the held-out table, each from {k} other rows, for {draws} "
            f"draws of contexts: {averaged}, with its 90 % interval over contexts and their rows "
            "and over training seeds. The solvers beside it "
            f"are fitted to the same contexts: {solvers}."
        )
    source = f"paper: {_TABLE_2['source']}; it tests on 5 % of a table, labels as they are"
    return f"{text}\n{source}"


def accuracy_panel(result: Result) -> Panel:
    """The content of openml.json as bars: by table the accuracy of each model and solver, the
    published numbers, and the share of the larger class."""
    curves = []
    spread = "std" if result["settings"]["protocol"] == "reference" else "90 % interval"
    for label, values in _columns(result).items():
        # [3, tables]: means, lows and highs; None becomes nan.
        ends = np.array([_ends(value) for value in values], float).T
        if np.isfinite(ends).any():
            curves.append(Curve.of(label, label.removesuffix(", paper"), Interval(*ends)))
    labels = [entry["label"] for entry in result["tables"]]
    return Panel(
        "accuracy",
        f"Accuracy on held-out tables, {spread}",
        "held-out table",
        f"accuracy, {result['k']} rows of context",
        list(range(len(labels))),
        curves,
        bars=True,
        x_names=labels,
    )


def _ends(value: Mapping[str, float] | None) -> tuple[float | None, ...]:
    """Mean, low and high; a standard deviation stands for an interval."""
    if value is None:
        return None, None, None
    mean = value["mean"]
    std = value.get("std", np.nan)
    return mean, value.get("low", mean - std), value.get("high", mean + std)


def printed(openml_id: int | None) -> dict[str, dict[str, float]]:
    """The accuracies on a held-out table in Table 2 of arXiv 2311.12424, as in its notebook, by
    model family: `printed(720)["looped"]["mean"]`; empty for a table outside the ten."""
    entry = _TABLE_2["tables"].get(str(openml_id), {})
    return {family: {"mean": mean, "std": std} for family, (mean, std) in entry.items()}
