"""A file with a header and values between commas, semicolons or tabs, as a table.

table = csv_table(Path("mine.csv"), target="bought")
"""

import codecs
import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from looplab.conf.mistakes import RunError, one_line

from .settings import table_name
from .tables import Source, Table

_SEPARATORS = "\t;,"  # in this order: values between the first two may hold commas
_FIRST = 20  # records that tell the separator
_MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]  # in a column of numbers
_NO_CLASS = ["", "?"]
_DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
_THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"  # or three decimals
# As people write numbers: $1,234.50, 1 234 €, 12.5 %.
_DRESSED = r"[^\w\s.,]?\s?[+-]?\d{1,3}(?:[.,\s'’]?\d{3})*(?:[.,]\d*)?\s?[^\w\s.,]?"
Record = tuple[int, list[str]]  # the number of its last line, and its fields


def csv_table(path: Path, target: str | None = None) -> Table:
    """The table in a file in UTF-8 or, with its mark, UTF-16, gzipped or not, named after the file.
    `target` is its column of classes, by default the last one, in which only an empty field and "?"
    are missing, elsewhere NA and the like too.

    Empty lines, comments (#) and Excel's line `sep=;` may stand before the header. A column of
    numbers may have decimal commas.

    Raises RunError for what cannot be read, with its line, or used (see Table.from_frame).
    """
    try:
        content = path.read_bytes()
        frame = _frame(path, _text(content), target)
    except (ValueError, OSError, EOFError, zlib.error, csv.Error) as error:
        raise RunError(f"{path} cannot be read: {one_line(error)}") from None
    md5 = hashlib.md5(content).hexdigest()
    source = Source(name=table_name(path), url=path.resolve().as_uri(), md5=md5)
    return Table.from_frame(table_name(path), frame, target, source)


def _text(content: bytes) -> str:
    """The text of a file, its lines ended by \\n. Raises ValueError for another encoding."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    if "\0" in text:
        raise ValueError("it holds zero bytes, as UTF-16 without its mark does; save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _frame(path: Path, text: str, target: str | None) -> Any:
    """The columns of numbers and of texts as a pandas DataFrame. A column without a name has the
    one that pandas gives it, unless it is empty."""
    import pandas

    (line, names), rows = _header_and_rows(path, text)
    texts = pandas.DataFrame([fields for _, fields in rows], columns=range(len(names)), dtype=str)
    texts.index = pandas.Index([number for number, _ in rows])
    texts = texts.loc[:, [bool(name) or (texts[at] != "").any() for at, name in enumerate(names)]]
    names = [names[at] or f"Unnamed: {at}" for at in texts]
    target = names[-1] if target is None else target
    columns = list[Any]()
    for name, at in zip(names, texts, strict=True):
        if name == target:
            _check_header(path, line, names, target in set(texts[at]))
            columns.append(_labels(texts[at]))
        else:
            columns.append(_numbers(path, name, texts[at]))
    _check_decimals(path, [texts[column.name] for column in columns if column.dtype.kind in "iuf"])
    frame = pandas.concat(columns, axis=1)
    frame.columns = names
    return frame


def _header_and_rows(path: Path, text: str) -> tuple[Record, list[Record]]:
    """The first record of a file and the others, which have as many fields. Raises RunError for a
    record that has not."""
    text, separator = _without_lead(text)
    header, *rows = _records(text, separator or _separator(text)) or [(1, [])]
    line, names = header
    if len(names) < 2:
        problem = "names between commas, semicolons or tabs are expected, the columns' header"
        raise RunError(f"{path}, line {line}: {problem}")
    if all(len(fields) == len(names) + 1 for _, fields in rows):
        has_more = any(fields[-1] for _, fields in rows)
        # As R writes names of rows; or a separator ends each row.
        names = ["", *names] if has_more else [*names, ""]
    for number, fields in rows:
        if len(fields) != len(names):
            raise RunError(
                f"{path}, line {number}: {len(fields)} values, where the header, line {line}, has "
                f"{len(names)} names"
            )
    return (line, names), rows


def _without_lead(text: str) -> tuple[str, str]:
    """The text, with empty lines in place of comments and of Excel's line `sep=;` before the
    header; and the separator that the latter names."""
    lines = text.split("\n")
    separator = ""
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        named = re.fullmatch(r"sep=(.)\s*", line, re.IGNORECASE)
        is_comment = line.startswith("#") and not _is_header(line, below)
        if named:
            separator = named[1]
        elif line.strip() and not is_comment:
            break
        lines[number] = ""
    return "\n".join(lines), separator


def _is_header(line: str, below: str) -> bool:
    """Says whether a line that begins with # names the columns of the one below it."""
    has_as_many = any(0 < line.count(mark) == below.count(mark) for mark in _SEPARATORS)
    return has_as_many and re.search(r"(?:^|[\t;,])\s*[+-]?[.,]?\d", below) is not None


def _separator(text: str) -> str:
    """The first separator by which the header and the first rows have equally many fields, or one
    more in the rows; otherwise that by which the header has most."""
    widths = dict[str, int]()
    for separator in _SEPARATORS:
        header, *rows = [len(fields) for _, fields in _records(text, separator, _FIRST)] or [0]
        if header > 1 and len({*rows}) == 1 and rows[0] - header in (0, 1):
            return separator
        widths[separator] = header
    return max(widths, key=lambda separator: widths[separator])


def _records(text: str, separator: str, most: int | None = None) -> list[Record]:
    """The first records that are not empty; a quoted field may hold separators and line ends."""

    def not_empty() -> Iterator[Record]:
        reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
        for fields in reader:
            words = [" ".join(field.split()) for field in fields]
            if any(words):
                yield reader.line_num, words

    return list(islice(not_empty(), most))


def _check_header(path: Path, line: int, names: Sequence[str], is_class: bool) -> None:
    """Raises RunError where the target's name is a class, and a number is a name: a row."""
    import pandas

    if is_class and pandas.to_numeric(pandas.Series(names), errors="coerce").notna().any():
        raise RunError(f"{path}, line {line}: values, where the columns' header is expected")


def _labels(column: Any) -> Any:
    """The classes of each row, as numbers where all are, None where there is none."""
    import pandas

    labels = column.mask(column.isin(_NO_CLASS))
    numbers = pandas.to_numeric(labels, errors="coerce")
    return numbers if numbers.isna().equals(labels.isna()) else labels


def _numbers(path: Path, name: str, column: Any) -> Any:
    """A column of texts as numbers, true as 1 and false as 0, nan where one is missing; or as it is
    where most are none. Raises RunError for a text among numbers, as units below the header, and
    for numbers in no plain form."""
    import pandas

    texts = column[~column.isin(_MISSING)]
    numbers = pandas.to_numeric(texts, errors="coerce")
    odd = texts[numbers.isna()]
    if len(odd) and odd.str.fullmatch(_DECIMAL_COMMA).all():
        if not odd.str.fullmatch(_THOUSANDS).all():
            numbers = pandas.to_numeric(texts.str.replace(",", "."))
            odd = odd[:0]
    elif odd.str.lower().isin(["true", "false"]).all() and len(odd) == len(texts):
        numbers = (texts.str.lower() == "true").astype(float)
        odd = odd[:0]
    if odd.empty:
        return numbers.reindex(column.index)
    count = len(texts) - len(odd) + int(odd.str.fullmatch(_DRESSED).sum())
    if 2 * count <= len(texts):
        return column
    raise RunError(
        f"{path}, line {odd.index[0]}: {odd.iloc[0]!r} in {name!r}, a column of numbers, which are "
        "plain and have a decimal point, as 1234.5: mend it, or leave the line or the column out"
    )


def _check_decimals(path: Path, columns: Sequence[Any]) -> None:
    """Raises RunError where numbers have commas and points: one of them may mark thousands."""
    marks = [
        mark
        for mark in ",."
        if any(column.str.contains(mark, regex=False).any() for column in columns)
    ]
    if len(marks) == 2:
        problem = "numbers with decimal commas and with points: write all with a decimal point"
        raise RunError(f"{path}: {problem}, and none between thousands")
