"""The documents of a text: files, folders or patterns of plain text, JSON lines and Parquet.

for document in read_documents("novels/"): ...           # "Call me Ishmael. …"
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape, glob
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from looplab.conf.checks.folders import is_hidden
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, one_line

SEPARATOR = "<|endoftext|>"  # a line between two documents of a file
_JSON = ".json"
_KINDS = {  # of files that are read, by their endings; all but Parquet also as .gz
    ".txt": "plain text",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".jsonlines": "JSON lines",
    _JSON: "JSON lines",
    ".parquet": "Parquet",
}
_NO_TEXTS = f"has no {', '.join(_KINDS)} file"
TOKENS = ".bin"  # of a file of tokens
_BLOCK = 2**20  # bytes of lines that are read at once
_ROWS = 256  # of Parquet that are read at once


class Piece(NamedTuple):
    """A part of a document, and whether it ends it; one that does not ends in a line break."""

    text: str
    ends: bool


def read_documents(path: str, column: str = "text", setting: str = "task.text") -> Iterator[str]:
    """The documents of a text, one after another, as `read_pieces`."""
    pieces: list[str] = []
    for text, ends in read_pieces(path, column, setting):
        pieces.append(text)
        if ends:
            yield "".join(pieces)
            pieces = []


def read_pieces(path: str, column: str = "text", setting: str = "task.text") -> Iterator[Piece]:
    """The documents of the `text_files` of a path, in pieces: of plain text, what stands between
    lines `<|endoftext|>`; of JSON lines and Parquet, the values of `column`. Empty ones are left
    out.

    Raises ConfigError for a file that is empty, damaged, binary or not UTF-8, or has no such
    column. The error names the `setting` and the file.
    """
    held = ""
    begun = False
    is_empty = True
    for file in text_files(path, setting):
        for text, ends in _pieces(file, column, setting):
            held += text
            # White space before a document's first letter waits: alone it is no document.
            begun = begun or bool(held.strip())
            if begun:
                yield Piece(held, ends)
                is_empty = False
            if begun or ends:
                held = ""
                begun = not ends
    if is_empty:
        raise ConfigError(setting, f"has no text: {path}")


def text_files(path: str, setting: str = "task.text") -> list[Path]:
    """The files of a text: a file; those of a folder, at any depth, with the endings of plain text,
    JSON lines and Parquet; or those that fit a pattern. They are in the order of their paths, and
    each is there once, however many links lead to it; linked folders are read, too.

    Raises ConfigError, which names the `setting`, where there is none or they are of several kinds.
    So it does for a folder that cannot be read, or a link to nothing."""
    root = Path(path)
    absent = "is no file and no folder"
    with _reading(setting, path):
        if root.is_dir():
            files = _in_folder(root, _folders(root), setting)
            absent = _NO_TEXTS
        elif root.is_file():
            files = [root]
        else:
            files = list(_distinct(map(Path, sorted(_matches(path))), setting))
    if not files:
        raise ConfigError(setting, f"{absent}: {path}")
    kinds = sorted({kind_of(file) for file in files})
    if len(kinds) > 1:
        raise ConfigError(setting, f"mixes {', '.join(kinds)}: {path}; a pattern chooses")
    return files


def eval_files(folder: str) -> list[Path]:
    """The texts in the folder `task.eval`; none for an empty name. Raises ConfigError where it has
    none."""
    if not folder:
        return []
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError("task.eval", f"is no folder: {folder}")
    with _reading("task.eval", folder):
        files = _in_folder(path, [path], "task.eval")
    if not files:
        raise ConfigError("task.eval", f"{_NO_TEXTS}: {folder}")
    return files


def kind_of(path: Path) -> str:
    """The way in which a file is read, by its ending, in small letters or capital ones."""
    return _KINDS.get(_ending(path), "plain text")


def holds_tokens(path: str) -> bool:
    """Says whether a path is that of tokens as they are."""
    return path.lower().endswith(TOKENS)


def _ending(path: Path) -> str:
    """The ending of a file's name, in small letters, without that of its compression."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


@contextmanager
def _reading(setting: str, path: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None


def _in_folder(root: Path, folders: Iterable[Path], setting: str) -> list[Path]:
    """The texts in some folders below `root` that are not hidden, in the order of their paths."""
    paths = (path for folder in folders for path in folder.iterdir() if not is_hidden(path, root))
    texts = sorted(path for path in paths if _ending(path) in _KINDS)
    if any(kind_of(path) != "JSON lines" for path in texts):
        # Beside texts of another kind .json is what describes them.
        texts = [path for path in texts if _ending(path) != _JSON]
    return list(_distinct(texts, setting))


def _distinct(paths: Iterable[Path], setting: str) -> Iterator[Path]:
    """The files among some paths, each once, however many links lead to it. Raises ConfigError for
    a link to nothing."""
    seen: set[Path] = set()
    for path in paths:
        if path.is_symlink() and not path.exists():
            raise ConfigError(setting, f"has a link to nothing: {path}")
        if path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def _folders(root: Path) -> Iterator[Path]:
    """A folder and all below it that are not hidden: then those that links lead to, and that have
    not come yet."""
    seen: set[Path] = set()
    waiting = [root]
    linked: list[Path] = []
    while waiting or linked:
        # Real folders before links, so that a file has the path that its own folder gives it.
        folder = (waiting or linked).pop(0)
        if folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        yield folder
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not is_hidden(path, root):
                (linked if path.is_symlink() else waiting).append(path)


def _matches(pattern: str) -> list[str]:
    """The paths that fit a pattern. For ** stand all `_folders`: those of `glob` do not end where a
    link leads back."""
    levels = Path(pattern).parts
    if "**" not in levels:
        return glob(pattern)
    index = levels.index("**")
    rest = levels[index + 1 :] or ("*",)
    matches: list[str] = []
    for root in map(Path, glob(str(Path(*levels[:index])))):
        for folder in _folders(root) if root.is_dir() else ():
            matches += _matches(str(Path(escape(str(folder)), *rest)))
    return matches


def _blocks(path: Path, setting: str) -> Iterator[str]:
    """The text of a file, in blocks of whole lines."""
    position = 0
    try:
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with _reading(setting, path), opened(path, "rb") as file:
            # Whole lines, so that no character of several bytes is cut in two.
            while content := b"".join(file.readlines(_BLOCK)):
                if b"\0" in content:
                    raise ConfigError(setting, f"is no text but binary: {path}")
                # A byte order mark is one at the beginning of the file alone.
                yield content.decode("utf-8" if position else "utf-8-sig")
                position += len(content)
    except UnicodeDecodeError as error:
        where = f"byte {position + error.start:,} is {error.object[error.start]:#x}"
        raise ConfigError(setting, f"is not UTF-8: {path}, {where}") from None


def _pieces(path: Path, column: str, setting: str) -> Iterator[Piece]:
    if holds_tokens(path.name):
        raise ConfigError(setting, f"holds tokens, not text: {path}")
    kind = kind_of(path)
    if kind != "plain text":
        read = _parquet if kind == "Parquet" else _json_lines
        for value in read(path, column, setting):
            if value is not None and not isinstance(value, str):
                raise ConfigError("task.column", f"{column!r} of {path} holds no text")
            yield Piece((value or "").replace("\r\n", "\n"), True)
        return
    for block in _blocks(path, setting):
        text = block.replace("\r\n", "\n")
        lines: list[str] = []
        for line in text.splitlines(keepends=True) if SEPARATOR in text else (text,):
            if line.strip() == SEPARATOR:
                yield Piece("".join(lines), True)
                lines = []
            else:
                lines.append(line)
        yield Piece("".join(lines), False)
    yield Piece("", True)


def _json_lines(path: Path, column: str, setting: str) -> Iterator[Any]:
    needed = "must be JSON objects, one a line"
    # Not splitlines: a text in JSON may have other line breaks than the file.
    lines = (line for block in _blocks(path, setting) for line in StringIO(block))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}, line {number:,}"
        try:
            values = json.loads(line)
        except ValueError as error:
            raise ConfigError(setting, f"{needed}: {place}: {one_line(error)}") from None
        if not isinstance(values, dict):
            kind = type(values).__name__
            raise ConfigError(setting, f"{needed}, not a {kind}: {place}")
        if column not in values:
            raise ConfigError("task.column", f"is {column!r}, which {place} has not")
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
