"""A file with a header and values between commas, semicolons or tabs, as a table.

table = csv_table(Path("mine.csv"), target="bought")
"""

import gzip
import hashlib
import io
import re
import zlib
from pathlib import Path
from typing import Any

import pandas

from looplab.conf.mistakes import RunError, one_line

from .settings import table_name
from .tables import Source, Table

_SEPARATORS = "\t;,"
# Before the header may stand empty lines, Excel's line `sep=;` and comments. A line that begins
# with # above one that begins with a number is the header.
_LEAD = re.compile(r'(?:\s*\n|sep=(.)\s*\n|#.*\n(?!\s*"?[+-]?[.,]?\d))*', re.IGNORECASE)
_MISSING = ("", "?", "-", "na", "n/a", "#n/a", "nan", "null", "none")  # of a number
_NO_CLASS = ("", "?")
# 1,234 may be a thousand or have three decimals: it is read as other numbers of the file are.
_DECIMAL_COMMA = r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d*,\d+(?:[eE][+-]?\d+)?"
_NO_POINT = r"[+-]?\d*,?\d+(?:[eE][+-]?\d+)?"
# As people write numbers: $1,234.50, 1 234 €, 12.5 %.
_DRESSED = r"[$€£¥₹(]?\s?[+-]?[$€£¥₹]?\d{1,3}(?:[.,\s'’_]?\d{3})*(?:[.,]\d*)?\s?[$€£¥₹%)]?"


def csv_table(path: Path, target: str | None = None) -> Table:
    """The table in a file in UTF-8 or, with its mark, UTF-16, gzipped or not, named after the file.
    `target` is its column of classes, by default the last one. There only an empty field and "?"
    are missing, elsewhere NA and the like too.

    Empty lines, comments (#) and Excel's line `sep=;` may stand before the header. A column of
    numbers may have decimal commas.

    Raises RunError for what cannot be read or used (see Table.from_frame).
    """
    try:
        content = path.read_bytes()
        frame = _frame(_text(content), target)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    name = table_name(path)
    md5 = hashlib.md5(content).hexdigest()
    source = Source(name=name, url=path.resolve().as_uri(), md5=md5)
    return Table.from_frame(name, frame, target, source)


def _text(content: bytes) -> str:
    """The text of a file. Raises ValueError for another encoding."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    is_marked_utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = content.decode("utf-16" if is_marked_utf16 else "utf-8-sig", errors="replace")
    if re.search("[\0\ufffd]", text):
        raise ValueError("it is neither in UTF-8 nor in UTF-16 with its mark; save it as UTF-8")
    return text


def _frame(text: str, target: str | None) -> Any:
    """The columns as a pandas DataFrame, those of numbers as such. Raises ValueError for what
    cannot be read safely."""
    texts = _texts(text)
    target = target or texts.columns[-1]
    marks: dict[int, int] = {}
    for name, column in texts.items():
        present = column[~column.str.lower().isin(_MISSING)]
        is_number = pandas.to_numeric(present, errors="coerce").notna().all()
        # A column of numbers with points: then commas elsewhere are none, in the whole file.
        if is_number and name != target and present.str.contains(".", regex=False).any():
            marks = {}
            break
        if present.str.fullmatch(_NO_POINT).all() and present.str.fullmatch(_DECIMAL_COMMA).any():
            marks = str.maketrans(",.", ".,")
    columns = [
        _labels(column, texts.columns) if name == target else _numbers(column, marks)
        for name, column in texts.items()
    ]
    return pandas.concat(columns, axis=1)


def _texts(text: str) -> Any:
    """The values as they are written, without spaces around them, in rows that have the number of
    their line. A column without a name has the one that pandas gives it, unless it is empty."""
    lead: Any = _LEAD.match(text)
    line = lead[0].count("\n") + 1  # of the header
    unquoted = re.sub(r'"[^"]*"', "", text[lead.end() :]) + "\n\n"
    header, row = unquoted.splitlines()[:2]
    # The lesser count tells: names may hold another separator, and numbers decimal commas.
    separator = max(
        lead[1] or _SEPARATORS, key=lambda mark: sorted((header.count(mark), row.count(mark)))
    )
    most = max(header.count(separator), row.count(separator))
    if separator not in header:
        raise ValueError(
            f"line {line}: names between commas, semicolons or tabs are expected, the columns' "
            "header"
        )
    # The header is read as a row, so that pandas renames no column and takes none for an index.
    cells = pandas.read_csv(
        io.StringIO(text),
        sep=separator,
        header=None,
        names=range(most + 1),
        skiprows=line - 1,
        skip_blank_lines=False,
        skipinitialspace=True,
        dtype=str,
        na_filter=False,
    )
    cells.index += line
    cells = cells.map(lambda cell: " ".join(cell.split()))
    cells = cells[(cells != "").any(axis=1)]
    names = cells.iloc[0]
    cells = cells.iloc[1:]
    is_filled = (cells != "").any()
    if header.count(separator) < most and is_filled.iloc[-1]:  # R names rows, and not their column
        names = names.shift(fill_value="")
    cells.columns = [name or f"Unnamed: {index}" for index, name in names.items()]
    return cells.loc[:, list(is_filled | (names != ""))]


def _labels(column: Any, names: Any) -> Any:
    """The classes of each row, as numbers where all are, None where there is none. Raises
    ValueError where the target's name is a class, and a number is a name: a row."""
    is_class = (column == column.name).any()
    if is_class and pandas.to_numeric(names, errors="coerce").notna().any():
        raise ValueError("its first line has values, where the columns' header is expected")
    labels = column.mask(column.isin(_NO_CLASS))
    numbers = pandas.to_numeric(labels, errors="coerce")
    return numbers if numbers.isna().equals(labels.isna()) else labels


def _numbers(column: Any, marks: dict[int, int]) -> Any:
    """A column as numbers, true as 1, false as 0, nan where one is missing; or, if it has texts, as
    it is. `marks` translates decimal commas to points.

    Raises ValueError for a text alone among numbers, as a unit below the header, and for numbers in
    no plain form.
    """
    texts = column.str.lower().replace({"true": "1", "false": "0"}).str.translate(marks)
    numbers = pandas.to_numeric(texts, errors="coerce")
    odd = column[numbers.isna() & ~texts.isin(_MISSING)]
    if odd.empty:
        return numbers
    if (len(odd) == 1 and numbers.notna().any()) or odd.str.fullmatch(_DRESSED).all():
        raise ValueError(
            f"line {odd.index[0]}: {odd.iloc[0]!r} in {column.name!r}, a column of numbers, which "
            "are plain (1234.5 or, with decimal commas in all columns, 1234,5): mend it, or leave "
            "the line or the column out"
        )
    return column
