"""Leave-one-out as text, in the layout of Table 2, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase
from textwrap import fill

import numpy as np

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band, numbers
from looplab.evaluation.figures import AnyCurve, Pictures, name_curves
from looplab.evaluation.remarks import shared
from looplab.evaluation.style import style_of
from looplab.evaluation.tables import Part, Table, document

from .results import Accuracy, Result, TableEntry, source

_WIDTH = 100
_POLARITY = (
    "polarity. The answer follows what went with a label in training more than the labels of its "
    "context, and which of the two classes a table calls the first is chance."
)
# Points have no dashes: their shapes tell them apart in grey.
_MARKERS = {
    "looped": "o", "standard": "s", "tied": "^",
    "logistic": "v", "k-NN": "<", "forest": ">", "boosting": "P", "majority": "x",
}  # fmt: skip


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
        row: dict[str, object] = {
            key: entry[key] for key in ("openml_id", "name", "rows", "features", "majority_share")
        }
        for family, model in entry["models"].items():
            for part in ("accuracy", "as_is", "swapped", "published"):
                for name, value in (model[part] or {}).items():
                    row[f"{family}_{part}_{name}"] = value
        for solver, accuracy in entry["solvers"].items():
            row |= {f"{solver}_{name}": value for name, value in accuracy.items()}
        rows.append(row)
    columns = list({name: None for row in rows for name in row})
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _table(result: Result, notes: Mapping[str, tuple[str, list[str]]]) -> Table:
    families = list({family: None for entry in result["tables"] for family in entry["models"]})
    solvers = list(result["solvers"]) if any(e["solvers"] for e in result["tables"]) else []
    head = ["held out", "rows", "features", *families, *(f"{f}, paper" for f in families)]
    rows = []
    for entry in result["tables"]:
        models = [entry["models"].get(family) for family in families]
        marks = "".join(m for m, labels in notes.values() if entry["label"] in labels)
        rows.append(
            [
                f"{entry['label']}{f' ({marks})' if marks else ''}",
                f"{entry['rows']:,}",
                str(entry["features"]),
                *(_accuracy_text(model and model["accuracy"]) for model in models),
                *(_accuracy_text(model and model["published"], spread=False) for model in models),
                *(_accuracy_text(entry["solvers"].get(name), spread=False) for name in solvers),
                f"{entry['majority_share']:.3f}",
            ]
        )
    return Table([*head, *solvers, "larger class"], rows)


def _accuracy_text(value: Accuracy | None, spread: bool = True) -> str:
    if not value:
        return "-"
    if not spread:
        return f"{value['mean']:.3f}"
    if "std" in value:
        return f"{value['mean']:.3f} ± {value['std']:.3f}"
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def _caption(result: Result) -> Iterator[str]:
    settings, k = result["settings"], result["k"]
    if settings.protocol == "reference":
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
    yield fill(f"paper: {source()}; it tests on 5 % of a table, labels as they are", _WIDTH)


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


def draw_accuracies(result: Result, pictures: Pictures) -> None:
    """Draw accuracy.png, with its CSV: models and solvers with intervals, published numbers as open
    diamonds, the share of the larger class as a bar."""
    entries = result["tables"]
    curves, labels = accuracy_curves(entries), [entry["label"] for entry in entries]
    positions = np.arange(len(entries))
    figure = pictures.figure(8.0, 1.6 + 0.55 * len(entries))
    axes = figure.subplots()
    models = [name for name in curves if not name.endswith(", paper")]
    for index, name in enumerate(models):
        offset = 0.6 * ((index + 0.5) / len(models) - 0.5)
        colour, heights = style_of(name)["color"], positions + offset
        marker = _MARKERS.get(name, "o")
        mean, low, high = (numbers(curves[name][part]) for part in ("mean", "low", "high"))
        ends = (mean - low, high - mean)
        axes.errorbar(mean, heights, xerr=ends, fmt=marker, markersize=4, color=colour, label=name)
        if f"{name}, paper" in curves:
            mean, label = numbers(curves[f"{name}, paper"]["mean"]), f"{name}, paper"
            axes.plot(mean, heights, "D", markerfacecolor="none", color=colour, label=label)
    shares = [entry["majority_share"] for entry in entries]
    axes.vlines(shares, positions - 0.4, positions + 0.4, color="grey", label="larger class")
    axes.set_yticks(positions, labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"accuracy, {result['k']} rows of context")
    spread = "std" if result["settings"].protocol == "reference" else "90 % interval"
    pictures.title(figure, f"held-out tables, {spread}")
    name_curves(figure)
    curves["larger_class"] = {"mean": shares}
    pictures.save(figure, "accuracy", "table", labels, curves)


def accuracy_curves(entries: Sequence[TableEntry]) -> dict[str, AnyCurve]:
    """Mean, low and high by table, by the name in the legend; None for a table without a value."""
    by_name: dict[str, list[Accuracy | None]] = {}
    for index, entry in enumerate(entries):
        accuracies = {family: model["accuracy"] for family, model in entry["models"].items()}
        accuracies |= entry["solvers"]
        accuracies |= {
            f"{family}, paper": model["published"]
            for family, model in entry["models"].items()
            if model["published"]
        }
        for name, value in accuracies.items():
            by_name.setdefault(name, [None] * len(entries))[index] = value
    return {name: _curve(values) for name, values in by_name.items()}


def _curve(values: Sequence[Accuracy | None]) -> Band:
    mean, low, high = map(list, zip(*map(_ends, values), strict=True))
    return {"mean": mean, "low": low, "high": high}


def _ends(value: Accuracy | None) -> tuple[float | None, float | None, float | None]:
    if value is None:
        return None, None, None
    mean, std = value["mean"], value.get("std", 0.0)
    return mean, value.get("low", mean - std), value.get("high", mean + std)
