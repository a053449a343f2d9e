"""A user's file of comma-separated values, or of others, as a table."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import one_line

from ..settings import table_name
from .table import Source, Table, TableError, digest_of, is_unnamed

_NO_NUMBER = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "-")


def csv_table(path: Path, target: str | None = None) -> Table:
    """The table in a file with a header line, of values between commas, semicolons or tabs, gzipped
    or not, named after the file; `target` is its column of classes, by default the last one that
    has a name. Empty fields and "?" are missing values, and so are the usual words for them in a
    column that holds numbers beside.

    Raises TableError, naming the file, if it cannot be read or used (see Table.from_frame).
    """
    import pandas

    separator = _separator(path)
    frame = _read(path, separator)
    if target is None:
        target = next((name for name in reversed(frame.columns) if not is_unnamed(name)), None)
    notes: tuple[str, ...] = ()
    if not isinstance(frame.index, pandas.RangeIndex):  # more values in a row than in the header
        notes = ("left out, row names: those before the first column",)
    decimal = "." if separator == "," else ","
    for label, column in frame.items():
        if label != target:
            frame[label] = _numbers_in(column, decimal)
    name, url, md5 = table_name(path), path.resolve().as_uri(), digest_of(path, "md5")
    try:
        origin = Source(name=name, url=url, md5=md5, notes=notes)
        return Table.from_frame(name, frame, target, origin)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def _read(path: Path, separator: str) -> Any:
    """The file as a DataFrame, without spaces around names and texts."""
    import pandas

    options: dict[str, Any] = {"sep": separator, "skipinitialspace": True, "low_memory": False}
    options |= {"keep_default_na": False, "na_values": ["", "?"]}
    try:
        frame = pandas.read_csv(path, **options)
        if not isinstance(frame.index, pandas.RangeIndex) and frame.iloc[:, -1].isna().all():
            # Rows that end in a separator: pandas takes their first value for a name.
            frame = pandas.read_csv(path, index_col=False, **options)
    except (ValueError, OSError, EOFError, pandas.errors.ParserError) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame.map(lambda value: value.strip() if isinstance(value, str) else value)


def _separator(path: Path) -> str:
    """What stands most often between the names of the header."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            line = next((line for line in file if line.strip()), "")
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8, save it as that: {one_line(error)}") from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}") from None
    counts = {sep: len(next(csv.reader([line], delimiter=sep), [])) for sep in (",", ";", "\t")}
    return max(counts, key=lambda sep: counts[sep])


def _numbers_in(column: Any, decimal: str) -> Any:
    """A column of texts as numbers, with points or with this decimal sign, those that are missing
    as such, where it holds no other text."""
    import pandas

    if column.dtype == "bool" or pandas.api.types.is_numeric_dtype(column.dtype):
        return column
    texts = column.astype("string").replace({"True": "1", "False": "0"})
    present = texts[texts.notna() & ~texts.isin(_NO_NUMBER)]
    numbers = pandas.to_numeric(present.str.replace(decimal, ".", regex=False), errors="coerce")
    if present.empty or numbers.isna().any():
        return column
    return numbers.reindex(column.index).astype("float64")
