"""Tables with two classes, made from a DataFrame. On disk `<name>.npz` has the numbers;
`<name>.json` has all else and the sha256 of the .npz.

table = Table.from_frame("mine", frame, target="bought")
write_table(Path("openml_data"), table); read_table(Path("openml_data"), "mine")
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError
from looplab.tasks.table_rows import fetch_command
from looplab.training.run_folder.files import list_names, read_json, write_json, write_with

from .catalogue import IDS, TABLES

LEAST_ROWS = 41  # of a prompt: 40 of context and the query (arXiv 2311.12424, Appendix)
# What R and pandas call a column of row names.
_ROW_NAMES = ("", "rownames", "row.names", "row_names", "rowname", "index")
# Names of columns that number rows.
_ID = re.compile(r"(?i:(?:.*[\W_])?(?:id|no|nr|row)\W*)|.*[a-z]I[dD]")
# What pandas infers of an object column of numbers.
_NUMERIC_KINDS = ("boolean", "decimal", "empty", "floating", "integer", "mixed-integer-float")
_MISSING_MARKS = (-99, -999, -9999, -99999)
_FEW = 5  # names that a message lists


@dataclass(frozen=True)
class Source:
    """The origin of a table, None for what is unknown; `notes` are sentences."""

    openml_id: int | None = None
    version: int | None = None
    name: str | None = None
    target: str | None = None
    licence: str | None = None
    url: str | None = None
    md5: str | None = None
    date: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers, each in one of two classes.

    xs is float64 [rows, features] and finite; ys is int64 [rows], the index into `classes`;
    `sha256` is that of the file it was read from.
    """

    name: str
    features: tuple[str, ...]
    xs: NDArray[np.float64]
    ys: NDArray[np.int64]
    classes: tuple[str, str]
    source: Source = Source()
    sha256: str = ""

    @property
    def label(self) -> str:
        """Its id at OpenML, if it has one, and its name."""
        return f"{self.source.openml_id or ''} {self.name}".strip()

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of class 0 and of class 1."""
        ones = int(self.ys.sum())
        return len(self.ys) - ones, ones

    @property
    def remarks(self) -> list[str]:
        """Sentences that its results must be read with: the catalogue's and the source's notes."""
        notes = list(self.source.notes)
        known = TABLES.get(self.source.openml_id or 0)
        if known is None:
            return notes
        return known.remarks(*self.xs.shape) + notes

    @classmethod
    def from_frame(
        cls, name: str, frame: Any, target: Any = None, source: Source = Source()
    ) -> Table:
        """A table of the non-constant numeric columns of a pandas DataFrame and the classes of its
        column `target` (by default the last one).

        The notes name the columns left out, among them those that number the rows or have the
        class again. Class 0 is the first category of a categorical column, the smaller value of any
        other.

        Raises RunError for columns of one name; a target that is missing, incomplete or not of two
        classes; no numeric column that varies; values missing or not finite; fewer than LEAST_ROWS
        rows.
        """
        frame = frame.set_axis(frame.columns.map(str), axis=1)
        names = frame.columns
        if names.has_duplicates:
            problem = "give each a name of its own"
            raise RunError(f"{name} has two columns {names[names.duplicated()][0]!r}: {problem}")
        target = str(names[-1] if target is None and len(names) else target)
        if target not in names:
            raise RunError(
                f"{name} has no column {target!r}; its columns: {list_names(names, _FEW)}"
            )
        if len(frame) < LEAST_ROWS:
            raise RunError(f"{name} has {len(frame)} rows, and a prompt takes {LEAST_ROWS}")
        classes, ys = _classes(name, frame[target])
        features, xs, notes = _features(name, frame.drop(columns=target), ys)
        source = replace(source, target=target, notes=source.notes + tuple(notes))
        return cls(name, features, xs, ys, classes, source)


def _classes(name: str, column: Any) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The names of the two classes, without spaces around them, and the class of each row."""
    import pandas

    stripped = column.map(lambda label: label.strip() if isinstance(label, str) else label)
    labels = pandas.Categorical(stripped).remove_unused_categories()
    missing = int((labels.codes < 0).sum())
    if missing:
        problem = f"{missing} of {len(column)} rows have no class (column {column.name!r})"
        raise RunError(f"{name}: {problem}; leave those rows out")
    if len(labels.categories) != 2:
        raise RunError(
            f"{name}: column {column.name!r} has {len(labels.categories)} different values "
            f"({list_names(labels.categories, _FEW)}), where two classes are needed"
        )
    first, second = map(str, labels.categories)
    return (first, second), labels.codes.astype(np.int64)


def _features(
    name: str, frame: Any, ys: NDArray[np.int64]
) -> tuple[tuple[str, ...], NDArray[np.float64], list[str]]:
    """The numeric columns' names and values, without those that tell nothing or too much, and a
    sentence for each kind of column left out."""
    from pandas import to_numeric
    from pandas.api.types import infer_dtype, is_numeric_dtype

    features: dict[str, NDArray[np.float64]] = {}
    left_out: dict[str, list[str]] = {}
    not_finite: list[str] = []
    likely_missing: list[str] = []
    for column, values in frame.items():
        if values.dtype.kind == "O" and infer_dtype(values) in _NUMERIC_KINDS:
            values = to_numeric(values)
        # R and pandas write row names in a column without a name. Integers or texts under such a
        # name number the rows.
        is_row_name = column.casefold() in _ROW_NAMES and values.dtype.kind != "f"
        if is_row_name or column.startswith("Unnamed: "):
            why = "row names"
        elif not is_numeric_dtype(values) or values.isna().all():
            why = "not numeric"
        else:
            xs = values.to_numpy(dtype=np.float64, na_value=np.nan)  # true and false are 1 and 0
            missing = int((~np.isfinite(xs)).sum())
            if missing:
                not_finite.append(f"{missing} in {column!r}")
                continue
            why = _why_no_feature(column, xs, ys)
        if why:
            left_out.setdefault(why, []).append(column)
            continue
        features[column] = xs
        # Of a column that is no constant, as `_why_no_feature` has found.
        lowest, second, highest = np.unique(xs)[[0, 1, -1]]
        # The lowest value is further below the others than they span.
        if lowest in _MISSING_MARKS and second - lowest > highest - second:
            count = (xs == lowest).sum()
            likely_missing.append(f"{count} in {column!r} are {lowest:g}, as if they were missing")
    if not_finite:
        raise RunError(
            f"{name} has values that are missing or not finite ({list_names(not_finite, _FEW)}, of "
            f"{len(frame)} rows); leave those rows or columns out, or fill them in"
        )
    notes = [f"left out, {why}: {list_names(names, _FEW)}" for why, names in left_out.items()]
    if not features:
        listing = "".join(f"; {note}" for note in notes)
        raise RunError(f"{name} has no numeric column that varies, beside its target{listing}")
    return tuple(features), np.column_stack(list(features.values())), notes + likely_missing


def _why_no_feature(name: str, values: NDArray[np.float64], ys: NDArray[np.int64]) -> str:
    """Why a column is left out; empty for a feature.

    Distinct whole numbers in equal steps, in any order, number the rows; with gaps only under a
    name that `_ID` matches. They give the class away where a table is sorted by it.
    """
    ordered = np.unique(values)
    if len(ordered) == 1:
        return "constant"
    value_and_class = np.unique(np.stack((values, ys)), axis=1)
    if len(ordered) == 2 and value_and_class.shape[1] == 2:  # each value has one class
        return "the class again"
    if len(ordered) == len(values) and (values == np.round(values)).all():
        steps = np.diff(ordered)
        if (steps == steps[0]).all() or _ID.fullmatch(name):
            return "numbers of the rows"
    return ""


def write_table(folder: Path, table: Table) -> Path:
    """Store a table in an existing folder, replacing one of its name; returns the path of its JSON.

    An interruption leaves the old table, the new one, or (between the two files) one that
    `read_table` refuses.
    """
    numbers = folder / f"{table.name}.npz"
    path = folder / f"{table.name}.json"
    write_with(numbers, lambda file: np.savez(file, allow_pickle=False, xs=table.xs, ys=table.ys))
    sha256 = hashlib.sha256(numbers.read_bytes()).hexdigest()
    content = {
        "schema_version": 1,
        "name": table.name,
        "rows": len(table.ys),
        "features": table.features,
        "classes": table.classes,
        "counts": table.counts,
        "source": asdict(table.source),
        "sha256": sha256,
    }
    write_json(path, content)
    return path


def read_table(folder: Path, key: int | str) -> Table:
    """A table by its OpenML id or its name, checked against its sha256. Raises RunError, with the
    command that fetches it, if there is none, and for files that are altered or incomplete."""
    check_tables(folder, [key])
    path = _find(folder, key)
    content = read_json(path)
    numbers = path.with_suffix(".npz")
    sha256 = hashlib.sha256(numbers.read_bytes()).hexdigest() if numbers.is_file() else ""
    if not isinstance(content, dict) or content.get("sha256") != sha256:
        command = _fetch_command(folder, key)
        raise RunError(f"{numbers} is missing or altered (its sha256); {command} makes it again")
    with np.load(numbers, allow_pickle=False) as arrays:
        xs = arrays["xs"]
        ys = arrays["ys"]
    try:
        source = Source(**content["source"])
        source = replace(source, notes=tuple(source.notes))
        features = tuple(content["features"])
        classes = tuple(content["classes"])
        return Table(content["name"], features, xs, ys, classes, source, sha256)
    except (KeyError, TypeError):
        command = _fetch_command(folder, key)
        raise RunError(f"{path} is altered; {command} makes it again") from None


def check_tables(folder: Path, keys: Sequence[int | str]) -> None:
    """Raises RunError, with the command that fetches them, if tables are missing."""
    missing = [key for key in keys if not _find(folder, key).exists()]
    if missing:
        names = list_names(missing, len(missing))
        them = "it" if len(missing) == 1 else "them"
        command = _fetch_command(folder, *missing)
        raise RunError(f"{folder} holds no table {names}; {command} puts {them} there")


def _find(folder: Path, key: int | str) -> Path:
    """The path of a table's JSON, by OpenML id or name, or where it would be."""
    if isinstance(key, str):
        return folder / f"{key}.json"
    for path in folder.glob("[!.]*.json"):
        content = read_json(path)
        source = content.get("source") if isinstance(content, dict) else None
        if isinstance(source, dict) and source.get("openml_id") == key:
            return path
    return folder / f"{key}.json"


def _fetch_command(folder: Path, *keys: int | str) -> str:
    words = []
    for key in keys:
        words.append(str(key if isinstance(key, int) else IDS.get(key, f"{key}.csv")))
    return fetch_command(folder, words)
