"""The documents of a text: files, folders or patterns of plain text, JSON lines and Parquet.

for document in read_documents("novels/"): ...           # "Call me Ishmael. …"
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from glob import glob
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from looplab.conf.checks.folders import is_hidden
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, one_line

SEPARATOR = "<|endoftext|>"  # a line between two documents of a file
_PARQUET = ".parquet"
_JSON_LINES = (".jsonl", ".jsonl.gz")
_SUFFIXES = (".txt", ".txt.gz", _PARQUET, *_JSON_LINES)  # of files that are read
TOKENS = ".bin"  # of a file of tokens
_BLOCK = 2**20  # bytes of lines that are read at once
_ROWS = 256  # of Parquet that are read at once


class Piece(NamedTuple):
    """A part of a document, and whether it ends it; one that does not ends in a line break."""

    text: str
    ends: bool


def read_documents(path: str, column: str = "text", setting: str = "task.text") -> Iterator[str]:
    """The documents of a text, one after another, as `read_pieces`."""
    pieces = list[str]()
    for text, ends in read_pieces(path, column, setting):
        pieces.append(text)
        if ends:
            yield "".join(pieces)
            pieces = []


def read_pieces(path: str, column: str = "text", setting: str = "task.text") -> Iterator[Piece]:
    """The documents of the `text_files` of a path, in pieces: of plain text, what stands between
    lines `<|endoftext|>`; of JSON lines and Parquet, the values of `column`. Empty ones are left
    out.

    Raises ConfigError, which names the `setting` and the file, for one that is empty, damaged,
    binary or not UTF-8, and for a column that it does not have.
    """
    held, begun, is_empty = "", False, True
    for file in text_files(path, setting):
        for text, ends in _pieces(file, column, setting):
            held += text
            begun = begun or bool(held.strip())
            if begun:
                yield Piece(held, ends)
                is_empty = False
            if begun or ends:
                held, begun = "", not ends
    if is_empty:
        raise ConfigError(setting, f"has no text: {path}")


def text_files(path: str, setting: str = "task.text") -> list[Path]:
    """The files of a text: a file; those of a folder, at any depth, with the endings of plain text,
    JSON lines and Parquet; or those that fit a pattern. They are in the order of their paths.
    Raises ConfigError, which names the `setting`, where there is none, and where they are of
    several kinds."""
    root = Path(path)
    if root.is_dir():
        found = _in_folder(root, "**/*")
        if not found:
            raise ConfigError(setting, f"has no .txt, .txt.gz, .jsonl or .parquet file: {path}")
    else:
        names = [path] if root.is_file() else sorted(glob(path, recursive=True))
        found = [file for file in map(Path, names) if file.is_file()]
        if not found:
            raise ConfigError(setting, f"is no file and no folder: {path}")
    kinds = {
        "JSON lines" if file.name.endswith(_JSON_LINES)
        else "Parquet" if file.name.endswith(_PARQUET) else "plain text"
        for file in found
    }  # fmt: skip
    if len(kinds) > 1:
        mixed = f"mixes {', '.join(sorted(kinds))}: {path}; a pattern chooses"
        raise ConfigError(setting, mixed)
    return found


def eval_files(folder: str) -> list[Path]:
    """The texts in the folder `task.eval`; none for an empty name. Raises ConfigError where it has
    none."""
    if not folder:
        return []
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError("task.eval", f"is no folder: {folder}")
    if not (found := _in_folder(path, "*")):
        raise ConfigError("task.eval", f"has no {', '.join(_SUFFIXES)} file: {folder}")
    return found


def _in_folder(folder: Path, pattern: str) -> list[Path]:
    """The texts in a folder that are not hidden, in the order of their paths."""
    found = (path for path in folder.glob(pattern) if path.name.endswith(_SUFFIXES))
    return sorted(path for path in found if path.is_file() and not is_hidden(path, folder))


def _blocks(path: Path, setting: str) -> Iterator[str]:
    """The text of a file, in blocks of whole lines."""
    position = 0
    try:
        with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as file:
            while content := b"".join(file.readlines(_BLOCK)):
                if b"\0" in content:
                    raise ConfigError(setting, f"is no text but binary: {path}")
                yield content.decode("utf-8" if position else "utf-8-sig")
                position += len(content)
    except UnicodeDecodeError as error:
        place = f"byte {position + error.start:,} is {error.object[error.start]:#x}"
        raise ConfigError(setting, f"is not UTF-8: {path}, {place}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None


def _pieces(path: Path, column: str, setting: str) -> Iterator[Piece]:
    if path.name.endswith(TOKENS):
        raise ConfigError(setting, f"holds tokens, not text: {path}")
    if path.name.endswith((_PARQUET, *_JSON_LINES)):
        read = _parquet if path.name.endswith(_PARQUET) else _json_lines
        for value in read(path, column, setting):
            if value is not None and not isinstance(value, str):
                raise ConfigError("task.column", f"{column!r} of {path} holds no text")
            yield Piece((value or "").replace("\r\n", "\n"), True)
        return
    for block in _blocks(path, setting):
        text = block.replace("\r\n", "\n")
        lines = list[str]()
        for line in text.splitlines(keepends=True) if SEPARATOR in text else (text,):
            if line.strip() == SEPARATOR:
                yield Piece("".join(lines), True)
                lines = []
            else:
                lines.append(line)
        yield Piece("".join(lines), False)
    yield Piece("", True)


def _json_lines(path: Path, column: str, setting: str) -> Iterator[Any]:
    # Not splitlines: a text in JSON may have other line breaks than the file.
    lines = (line for block in _blocks(path, setting) for line in StringIO(block))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError as error:
            raise ConfigError(
                setting, f"is no JSON: {path}, line {number:,}: {one_line(error)}"
            ) from None
        if not isinstance(values, dict) or column not in values:
            raise ConfigError(
                "task.column", f"is {column!r}, which {path}, line {number:,} has not"
            )
        yield values[column]


def _parquet(path: Path, column: str, setting: str) -> Iterator[Any]:
    pyarrow = optional(setting, "pyarrow", "ArrowException", "pyarrow")
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if column not in names:
            raise ConfigError("task.column", f"is {column!r}, but {path} has {', '.join(names)}")
        for batch in file.iter_batches(_ROWS, columns=[column]):
            yield from batch.column(0).to_pylist()
    except UnicodeDecodeError:
        raise ConfigError(setting, f"is not UTF-8: {path}") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None
