"""Losses of models of several sizes and loops, as a table for fitting the scaling law.

table = read_csv(Path("runs.csv"))                         # columns N_once, N_rec, r, D, loss
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError, nearest, one_line

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

COLUMNS = ("N_once", "N_rec", "r", "D", "loss")


@dataclass(frozen=True, eq=False)
class ScalingTable:
    """A row for each trained model; every array is [rows].

    N_once counts the parameters that run once, N_rec those that run r times, D the training data
    (tokens, prompts), loss is the mean on held-out data. `labels` are further columns, as text: a
    budget, a run's name.

    Raises RunError, naming column and row (from 1), for an invalid number: N_once may be 0, for a
    model with nothing outside its loop, all others are above 0.
    """

    N_once: Floats
    N_rec: Floats
    r: Floats
    D: Floats
    loss: Floats
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in COLUMNS:
            values = getattr(self, name)
            bound = "at least 0" if name == "N_once" else "above 0"
            invalid = ~np.isfinite(values) | (values < 0 if name == "N_once" else values <= 0)
            if invalid.any():
                row = int(np.flatnonzero(invalid)[0])
                raise RunError(f"{name} must be {bound}, got {values[row]} in row {row + 1}")

    def __len__(self) -> int:
        return len(self.loss)

    @property
    def parameters(self) -> Floats:
        """The parameters of each model, each counted once."""
        return self.N_once + self.N_rec

    def groups(self, columns: Sequence[str]) -> NDArray[np.intp]:
        """For each row the number of its group: rows that agree in all these columns (labels that
        are numbers are compared, and ordered, as numbers) are one group; without columns each row
        is a group.

        Raises RunError for a column that the table lacks.
        """
        if not columns:
            return np.arange(len(self))
        parts = [np.unique(self._column(name), return_inverse=True)[1] for name in columns]
        return np.unique(np.stack(parts), axis=1, return_inverse=True)[1].reshape(-1)

    def _column(self, name: str) -> NDArray[np.generic]:
        if name in self.labels:
            words = np.array(self.labels[name])
            try:
                return words.astype(np.float64)
            except ValueError:
                return words
        if name in COLUMNS:
            return getattr(self, name)
        raise RunError(f"the table has no column {name}{nearest(name, (*COLUMNS, *self.labels))}")


def read_csv(path: Path) -> ScalingTable:
    """The table in a CSV file whose header names the columns N_once, N_rec, r, D and loss, in any
    order; other columns become labels. Blanks around values, and rows and last columns that are
    empty, do not count. Raises RunError, naming the file, for a missing column, a
    value that is no number, a duplicate column, and a row with more fields than columns."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            cells = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    names, *rows = [_trimmed(row) for row in cells if any(row)] or [[]]
    for name in COLUMNS:
        if name not in names:
            suffix = f"; it has {', '.join(names)}" if names else "; it is empty"
            raise RunError(f"{path} has no column {name}{suffix}")
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise RunError(f"{path} names the column {duplicate!r} twice")
    try:
        _check_lengths(rows, len(names))
        padded = [row + [""] * (len(names) - len(row)) for row in rows]
        values = {name: [row[index] for row in padded] for index, name in enumerate(names)}
        numbers = {name: _numbers(name, values.pop(name)) for name in COLUMNS}
        labels = {name: tuple(texts) for name, texts in values.items()}
        return ScalingTable(**numbers, labels=labels)
    except RunError as error:
        raise RunError(f"{path}: {error}") from None


def csv_of(table: ScalingTable) -> str:
    """The content of such a file."""
    columns = {name: getattr(table, name).tolist() for name in COLUMNS} | dict(table.labels)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue()


def _trimmed(row: list[str]) -> list[str]:
    """A row without the empty fields at its end."""
    last = max((index for index, cell in enumerate(row) if cell), default=-1)
    return row[: last + 1]


def _check_lengths(rows: Sequence[Sequence[str]], columns: int) -> None:
    """Raise RunError for the first row with more fields than the header: they belong to no column,
    and if a number was written with a comma, those before them to the wrong one."""
    for row, fields in enumerate(rows, start=1):
        if len(fields) > columns:
            raise RunError(f"row {row} has {len(fields)} fields, the header {columns} columns")


def _numbers(name: str, texts: Sequence[str | None]) -> Floats:
    values = []
    for row, text in enumerate(texts, start=1):
        try:
            values.append(float(text or ""))
        except ValueError:
            raise RunError(f"{name} must be a number, got {text or ''!r} in row {row}") from None
    return np.array(values, dtype=np.float64)
