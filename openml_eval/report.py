"""Leave-one-out as text, in the layout of Table 2, as CSV and as a panel, with the numbers of that
table as printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from textwrap import fill
from typing import Any

import numpy as np
from pandas import DataFrame

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Interval, numbers
from looplab.evaluation.panel import Curve, Panel
from looplab.evaluation.remarks import shared
from looplab.evaluation.tables import Part, Table, document

_WIDTH = 100
_POLARITY = (
    "polarity. The answer follows what went with a label in training more than the labels of its "
    "context, and which of the two classes a table calls the first is chance."
)
Result = Mapping[str, Any]  # the content of openml.json


def report(result: Result, form: TableFormat = "text") -> str:
    """The table, and below it a caption and the notes on its numbers."""
    notes = _notes(result)
    lines: list[Part] = [_table(result, notes), *_caption(result)]
    lines += [
        f"{family} beats the larger class on {count} of {total} tables beyond its interval"
        for family, (count, total) in result["beats_majority"].items()
    ]
    lines += [*_below_half_lines(result), *_remark_lines(result)]
    lines += [
        fill(f"({mark}) {', '.join(labels)}: {text}", _WIDTH, subsequent_indent="    ")
        for text, (mark, labels) in notes.items()
    ]
    lines += [f"failed: {line}" for line in result["failed"]]
    return document(lines, form)


def csv_text(result: Result) -> str:
    """A line for each table: its properties, then mean, low and high (or std) of every accuracy."""
    rows = []
    for entry in result["tables"]:
        row = {
            key: entry[key] for key in ("openml_id", "name", "rows", "features", "majority_share")
        }
        for family, model in entry["models"].items():
            for part in ("accuracy", "as_is", "swapped", "published"):
                row |= {f"{family}_{part}_{n}": value for n, value in (model[part] or {}).items()}
        for solver, accuracy in entry["solvers"].items():
            row |= {f"{solver}_{name}": value for name, value in accuracy.items()}
        rows.append(row)
    text: str = DataFrame(rows, dtype=object).to_csv(index=False)
    return text


def _table(result: Result, notes: Mapping[str, tuple[str, list[str]]]) -> Table:
    entries = result["tables"]
    families, solvers = _names(entries, "models"), _names(entries, "solvers")
    papers = [f"{family}, paper" for family in families]
    head = ["held out", "rows", "features", *families, *papers, *solvers, "larger class"]
    rows = []
    for entry in entries:
        marks = "".join(m for m, labels in notes.values() if entry["label"] in labels)
        rows.append(
            [
                f"{entry['label']}{f' ({marks})' if marks else ''}",
                f"{entry['rows']:,}",
                str(entry["features"]),
                *(_accuracy_text(_model(entry, family, "accuracy")) for family in families),
                *(_mean_text(_model(entry, family, "published")) for family in families),
                *(_mean_text(entry["solvers"].get(name)) for name in solvers),
                f"{entry['majority_share']:.3f}",
            ]
        )
    return Table(head, rows)


def _accuracy_text(value: Mapping[str, float] | None) -> str:
    if value and "std" in value:
        return f"{_mean_text(value)} ± {value['std']:.3f}"
    return f"{_mean_text(value)} [{value['low']:.3f}, {value['high']:.3f}]" if value else "-"


def _mean_text(value: Mapping[str, float] | None) -> str:
    return f"{value['mean']:.3f}" if value else "-"


def _caption(result: Result) -> Iterator[str]:
    k = result["k"]
    if result["settings"]["protocol"] == "reference":
        text = (
            "Accuracy under the published protocol, flaws included: of a random 5 % of the "
            f"held-out table, each row (at most 5,000) from {k} others of these 5 %, all "
            "standardised by the whole table and with labels as they are; mean ± population "
            f"standard deviation over {result['evaluation_seeds']} draws of contexts."
        )
    else:
        seeds = len(
            {r["seed"] for e in result["tables"] for m in e["models"].values() for r in m["runs"]}
        )
        text = (
            f"Accuracy on all rows of the held-out table, each from {k} other rows, for "
            f"{result['evaluation_seeds']} evaluation seeds and {seeds} of training: the mean "
            "over labels as they are and swapped, with its 90 % interval over contexts and their "
            "rows and over training seeds. The solvers beside it are fitted to the same contexts: "
            + "; ".join(f"{name}: {description}" for name, description in result["solvers"].items())
            + "."
        )
    yield fill(text, _WIDTH)
    yield fill(
        f"paper: {_table_2()['source']}; it tests on 5 % of a table, labels as they are", _WIDTH
    )


def _below_half_lines(result: Result) -> Iterator[str]:
    """Explanations of accuracies below one half with the labels as they are."""
    for entry in result["tables"]:
        for family, model in entry["models"].items():
            as_is, swapped = model["as_is"], model["swapped"]["mean"]
            high = as_is["high"] if "high" in as_is else as_is["mean"] + 2 * as_is["std"]
            if high >= 0.5:
                continue
            text = (
                f"{entry['label']}, {family}: below one half, {as_is['mean']:.3f}, with labels as "
                f"they are, and {swapped:.3f} with the labels of context and query swapped: "
            )
            text += _POLARITY if swapped > 0.5 else "the context misleads it both ways."
            yield fill(text, _WIDTH, subsequent_indent="  ")


def _remark_lines(result: Result) -> Iterator[str]:
    """The remarks on the runs: unfinished training or curricula, other code."""
    runs = {
        f"{entry['label']}, {family}, seed {run['seed']}": run.get("remarks", [])
        for entry in result["tables"]
        for family, model in entry["models"].items()
        for run in model["runs"]
    }
    for line in shared(runs):
        yield fill(line, _WIDTH, subsequent_indent="  ")


def _notes(result: Result) -> dict[str, tuple[str, list[str]]]:
    """The remarks on the tables: each once, with a mark and its tables' labels."""
    labels_by_remark: dict[str, list[str]] = {}
    for entry in result["tables"]:
        for remark in entry["remarks"]:
            labels_by_remark.setdefault(remark, []).append(entry["label"])
    return {
        text: (ascii_lowercase[index % 26] * (1 + index // 26), labels)
        for index, (text, labels) in enumerate(labels_by_remark.items())
    }


def accuracy_panel(result: Mapping[str, Any]) -> Panel:
    """The content of openml.json as bars: by table the accuracy of each model and solver, the
    published numbers, and the share of the larger class."""
    entries = result["tables"]
    spread = "std" if result["settings"]["protocol"] == "reference" else "90 % interval"
    families, solvers = _names(entries, "models"), _names(entries, "solvers")
    by_label: dict[str, list[Any]] = {
        **{name: [_model(each, name, "accuracy") for each in entries] for name in families},
        **{name: [each["solvers"].get(name) for each in entries] for name in solvers},
        **{f"{n}, paper": [_model(each, n, "published") for each in entries] for n in families},
        "larger class": [{"mean": each["majority_share"]} for each in entries],
    }
    curves = []
    for label, values in by_label.items():
        ends = numbers([end for value in values for end in _ends(value)]).reshape(-1, 3).T
        if np.isfinite(ends).any():
            kind = label.removesuffix(", paper")
            curves.append(Curve.of(label, kind, Interval(*ends)))
    return Panel(
        "accuracy", f"Accuracy on held-out tables, {spread}", "held-out table",
        f"accuracy, {result['k']} rows of context", [*range(len(entries))], curves, bars=True,
        x_names=[entry["label"] for entry in entries],
    )  # fmt: skip


def _ends(value: Mapping[str, float] | None) -> tuple[float | None, ...]:
    """Mean, low and high; a standard deviation stands for an interval."""
    if value is None:
        return None, None, None
    mean, std = value["mean"], value.get("std")
    if std is not None:
        return mean, mean - std, mean + std
    return mean, value.get("low"), value.get("high")


def _names(entries: Sequence[Mapping[str, Any]], part: str) -> list[str]:
    """The families of models, or the solvers, of any table."""
    return list(dict.fromkeys(name for entry in entries for name in entry[part]))


def _model(entry: Mapping[str, Any], family: str, part: str) -> Any:
    """One of a family's accuracies on a table; None without it."""
    return entry["models"].get(family, {}).get(part)


def printed(openml_id: int | None) -> dict[str, dict[str, float]]:
    """The accuracies on a held-out table in Table 2 of arXiv 2311.12424, as in its notebook, by
    model family: `printed(720)["looped"]["mean"]`; empty for a table outside the ten."""
    entry = _table_2()["tables"].get(str(openml_id), {})
    return {family: {"mean": mean, "std": std} for family, (mean, std) in entry.items()}


@cache
def _table_2() -> Any:
    """`source` of these numbers, and the `tables`."""
    return json.loads(Path(__file__).with_name("table2.json").read_text(encoding="utf-8"))
