"""A table with two classes: made from a DataFrame; on disk, its numbers in `<name>.npz`, all else,
with their sha256, in `<name>.json`.

table = Table.from_frame("mine", frame, target="bought")
write_table(Path("openml_data"), table); read_table(Path("openml_data"), "mine")
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError
from looplab.training.run_folder.files import read_json, write_json, write_with

from .catalogue import entry, ids_by_name

LEAST_ROWS = 41  # of a prompt: 40 of context and the query (arXiv 2311.12424, Appendix)
_FEW = 5  # names that a message lists
# Of a column that names rows: R writes none or `rownames`, pandas none (it reads one as `Unnamed`)
# or `index`.
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)*")
_ROW_NAMES = ("rownames", "row.names", "row_names", "rowname", "index")


class TableError(ValueError):
    """The reason why a table cannot be used, as one line for the user."""


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

    xs is float64 [rows, features] and finite; ys is int64 [rows], the index into `classes`.
    """

    name: str
    features: tuple[str, ...]
    xs: NDArray[np.float64]
    ys: NDArray[np.int64]
    classes: tuple[str, str]
    source: Source = Source()

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
        known = entry(self.source.openml_id) if self.source.openml_id else None
        return [*(known.remarks(*self.xs.shape) if known else []), *self.source.notes]

    @classmethod
    def from_frame(
        cls,
        name: str,
        frame: Any,
        target: str | None = None,
        origin: Source = Source(),
    ) -> Table:
        """A table of the non-constant numeric columns of a pandas DataFrame and the classes of its
        column `target` (by default the last one).

        The notes name the columns left out, row names among them. Class 0 is the first category of
        a categorical column, the smaller value of any other.

        Raises TableError for a target that is missing, incomplete or has not two classes, for no
        non-constant numeric column, for values that are missing or not finite, and for fewer than
        LEAST_ROWS rows.
        """
        target = _target_column(name, frame, target)
        if len(frame) < LEAST_ROWS:
            raise TableError(f"{name} has {len(frame)} rows, and a prompt takes {LEAST_ROWS}")
        classes, ys = _classes(name, frame[target])
        features, left_out = _features(name, frame, target)
        xs = np.empty((len(frame), len(features)))
        for index, feature in enumerate(features):
            xs[:, index] = _numbers(frame[feature])
        source = replace(origin, target=str(target), notes=(*origin.notes, *left_out))
        names = tuple(str(feature) for feature in features)
        return cls(name, names, xs, ys, classes, source)


def _target_column(name: str, frame: Any, target: str | None) -> Any:
    """The target's column name; TableError unless all columns have different names."""
    columns = list(frame.columns)
    duplicates = [column for column, count in Counter(map(str, columns)).items() if count > 1]
    if duplicates:
        raise TableError(f"{name} has more than one column named {list_names(duplicates)}")
    if not columns or (target is not None and target not in columns):
        raise TableError(f"{name} has no column {target!r}; its columns: {list_names(columns)}")
    return columns[-1] if target is None else target


def _classes(name: str, column: Any) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The names of the two classes, and the class of each row."""
    import pandas

    missing = int(column.isna().sum())
    if missing:
        raise TableError(
            f"{name}: {missing} of {len(column)} rows have no class (column {column.name!r}); "
            "leave those rows out"
        )
    values = list(column.unique())
    if len(values) != 2:
        listing = f" ({list_names(values)})" if values else ""
        raise TableError(
            f"{name}: column {column.name!r} has {len(values)} different values{listing}, "
            "where two classes are needed"
        )
    if isinstance(column.dtype, pandas.CategoricalDtype):
        values = [value for value in column.cat.categories if value in values]
    else:
        values.sort(key=lambda value: (str(type(value)), value))
    first, second = map(str, values)
    return (first, second), (column == values[1]).to_numpy(dtype=np.int64)


def _features(name: str, frame: Any, target: Any) -> tuple[list[Any], list[str]]:
    """The non-constant numeric columns, and a sentence for each kind of column left out."""
    from pandas.api.types import is_numeric_dtype

    features, constant, not_numeric, row_names, missing = [], [], [], [], {}
    for feature in frame.columns:
        if feature == target:
            continue
        column = frame[feature]
        if _names_rows(feature, column):
            row_names += [feature] if column.notna().any() else []
            continue
        if not is_numeric_dtype(column.dtype):  # true and false are 1 and 0
            not_numeric.append(feature)
            continue
        numbers = _numbers(column)
        count = int(np.count_nonzero(~np.isfinite(numbers)))
        if count:
            missing[feature] = count
        elif numbers.min() == numbers.max():
            constant.append(feature)
        else:
            features.append(feature)
    if missing:
        listing = list_names(f"{count} in {feature!r}" for feature, count in missing.items())
        raise TableError(
            f"{name} has values that are missing or not finite ({listing}, of {len(frame)} rows); "
            "leave those rows or columns out, or fill them in"
        )
    if not features:
        raise TableError(f"{name} has no numeric column that varies, beside its target {target!r}")
    left_out = [("row names", row_names), ("not numeric", not_numeric), ("constant", constant)]
    return features, [
        f"left out, {reason}: {list_names(names)}" for reason, names in left_out if names
    ]


def _names_rows(name: object, column: Any) -> bool:
    """Whether a column names rows: it has no name, or is called so and holds different names or
    whole numbers."""
    is_called_so = str(name).lower() in _ROW_NAMES and column.dtype.kind != "f"
    return is_unnamed(name) or (is_called_so and column.is_unique)


def is_unnamed(name: object) -> bool:
    """Whether a column has no name, or the one that pandas gives to such."""
    return _UNNAMED.fullmatch(str(name)) is not None


def _numbers(column: Any) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def list_names(names: Iterable[Any], most: int = _FEW) -> str:
    """The first few names, and the number of further ones."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def write_table(folder: Path, table: Table) -> Path:
    """Store a table in an existing folder, replacing one of its name; returns the path of its JSON.

    An interruption leaves the old table, the new one, or (between the two files) one that
    `read_table` refuses. Raises TableError for a name that is no file name, OSError if writing
    fails.
    """
    if not re.fullmatch(r"\w[\w .,()+-]*", table.name):
        raise TableError(f"{table.name!r} cannot be a table's name: a file is named after it")
    numbers, path = folder / f"{table.name}.npz", folder / f"{table.name}.json"
    write_with(numbers, lambda file: np.savez(file, allow_pickle=False, xs=table.xs, ys=table.ys))
    content = {
        "schema_version": 1,
        "name": table.name,
        "rows": len(table.ys),
        "features": list(table.features),
        "classes": list(table.classes),
        "counts": list(table.counts),
        "source": asdict(table.source),
        "sha256": digest_of(numbers, "sha256"),
    }
    write_json(path, content)
    return path


def read_table(folder: Path, key: int | str) -> Table:
    """A table by its OpenML id or its name, checked against its sha256.

    Takes little more memory than the table. Raises RunError if there is none, with the command that
    fetches it, and for files that are altered or incomplete.
    """
    check_tables(folder, [key])
    path = find_table(folder, key)
    assert path is not None
    content, numbers = read_json(path), path.with_suffix(".npz")
    if not isinstance(content, dict) or "sha256" not in content:
        raise _damage(path, key, "it is no table's JSON")
    if not numbers.exists():
        raise _damage(numbers, key, "it is missing")
    if digest_of(numbers, "sha256") != content["sha256"]:
        raise _damage(numbers, key, "its sha256 is not the one in its JSON")
    with np.load(numbers, allow_pickle=False) as arrays:
        xs, ys = arrays["xs"], arrays["ys"]
    source = Source(**{**content["source"], "notes": tuple(content["source"]["notes"])})
    features, classes = tuple(content["features"]), tuple(content["classes"])
    return Table(content["name"], features, xs, ys, classes, source)


def check_tables(folder: Path, keys: Sequence[int | str]) -> None:
    """Raises RunError, with the command that fetches them, if tables are missing."""
    missing = [each for each in keys if find_table(folder, each) is None]
    if missing:
        names, them = ", ".join(map(str, missing)), "it" if len(missing) == 1 else "them"
        raise RunError(
            f"{folder} holds no table {names}; {_fetch_command(folder, *missing)} puts {them} there"
        )


def find_table(folder: Path, key: int | str) -> Path | None:
    """The path of a table's JSON, by OpenML id or name; None if there is none."""
    if isinstance(key, str):
        path = folder / f"{key}.json"
        return path if path.exists() else None
    for path in sorted(folder.glob("[!.]*.json")):
        content = read_json(path)
        source = content.get("source") if isinstance(content, dict) else None
        if isinstance(source, dict) and source.get("openml_id") == key:
            return path
    return None


def _damage(path: Path, key: int | str, reason: str) -> RunError:
    command = _fetch_command(path.parent, key)
    return RunError(f"{path} is damaged ({reason}); {command} makes it again")


def _fetch_command(folder: Path, *keys: int | str) -> str:
    words = [
        str(key if isinstance(key, int) else ids_by_name().get(key, f"{key}.csv")) for key in keys
    ]
    tables = f"tables=[{','.join(words)}]" if len(words) > 1 else f"tables={words[0]}"
    command = ["python", "-m", "openml_eval", "action=fetch", tables, f"data_dir={folder}"]
    return f"`{shlex.join(command)}`"


def digest_of(path: Path, algorithm: str) -> str:
    """The digest of a file in hexadecimal digits, by md5 or sha256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
