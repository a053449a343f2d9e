"""A user's CSV file as a table."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from reloop.conf.mistakes import one_line

from .table import Source, Table, TableError


def csv_table(path: Path, target: str | None = None) -> Table:
    """The table in a CSV file with a header line, named after the file; `target` is its column of
    classes, by default the last one. Empty fields and "?" are missing values.

    Raises TableError, naming the file, if it cannot be read or used (see Table.from_frame).
    """
    origin = csv_origin(path, target)
    frame = _read(path, na_values=["?"], low_memory=False)  # one type per column, over all its rows
    try:
        return Table.from_frame(path.stem, frame, origin.target, origin)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def csv_origin(path: Path, target: str | None = None) -> Source:
    """The source of the table in a CSV file as it is now. TableError if it has no header."""
    target = target if target is not None else str(_read(path, nrows=0).columns[-1])
    with open(path, "rb") as file:
        md5 = hashlib.file_digest(file, "md5").hexdigest()
    return Source(name=path.stem, url=path.resolve().as_uri(), md5=md5, target=target)


def _read(path: Path, **options: Any) -> Any:
    import pandas

    try:
        return pandas.read_csv(path, **options)
    except (ValueError, pandas.errors.ParserError) as error:  # a wrong encoding is a ValueError
        raise TableError(f"{path} cannot be read: {one_line(error)}") from None
