"""The documents of a text: a file, a folder of files, or a Parquet file.

documents = read_documents("novels/")                    # ["Call me Ishmael. …", …]
train, held_out = split(documents, fraction=0.1)
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from looplab.conf.checks.folders import is_hidden
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, one_line

SEPARATOR = "<|endoftext|>"  # a line between two documents of a file
_PARQUET = ".parquet"
SUFFIXES = (".txt", ".txt.gz", _PARQUET)  # of files that are read
QUESTIONS = (".jsonl", ".jsonl.gz")  # of files of questions


def read_documents(path: str, column: str = "text", setting: str = "task.text") -> list[str]:
    """The documents of a text: of a folder, those of its .txt, .txt.gz and .parquet files, at any
    depth, in the order of their paths; of a file, what stands between lines `<|endoftext|>`; of a
    Parquet file, the values of `column`. Empty ones are left out.

    Raises ConfigError, which names the `setting` and the file, for one that is absent, empty,
    binary, of questions or not UTF-8, and for a column that a Parquet file does not have.
    """
    files = _files(Path(path), setting)
    documents = [text for file in files for text in _documents(file, column, setting)]
    documents = [text for text in documents if text.strip()]
    if not documents:
        raise ConfigError(setting, f"has no text: {path}")
    return documents


def read_text(path: Path, setting: str) -> str:
    """The text of a file, unpacked where its name ends in .gz. Raises ConfigError, which names the
    `setting` and the file, for one that is absent, binary or not UTF-8."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None
    if b"\0" in content:
        raise ConfigError(setting, f"is no text but binary: {path}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            setting, f"is not UTF-8: {path}, byte {error.start:,} is {content[error.start]:#x}"
        ) from None


def eval_files(folder: str) -> list[Path]:
    """The texts and files of questions in the folder `task.eval`; none for an empty name. Raises
    ConfigError where it has none."""
    if not folder:
        return []
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError("task.eval", f"is no folder: {folder}")
    suffixes = (*SUFFIXES, *QUESTIONS)
    if not (found := _in_folder(path, suffixes, "*")):
        raise ConfigError("task.eval", f"has no {', '.join(suffixes)} file: {folder}")
    return found


def split(documents: Sequence[str], fraction: float) -> tuple[list[str], list[str]]:
    """The documents for training, and the held-out ones: those of the least sha256, until they have
    at least this fraction of the characters, so that a document stays where it is when others come
    or go. Both keep the order of the text. Of a single document the end is held out, from a line
    break on."""
    if len(documents) == 1:
        return _cut(documents[0], fraction)
    order = sorted(range(len(documents)), key=lambda index: _digest(documents[index]))
    wanted = fraction * sum(map(len, documents))
    held_out, characters = set[int](), 0
    for index in order[:-1]:  # at least one is trained on
        if characters >= wanted:
            break
        held_out.add(index)
        characters += len(documents[index])
    parts: tuple[list[str], list[str]] = [], []
    for index, document in enumerate(documents):
        parts[index in held_out].append(document)
    return parts


def _cut(document: str, fraction: float) -> tuple[list[str], list[str]]:
    at = int(len(document) * (1 - fraction))
    line = document.find("\n", at) + 1
    at = line if 0 < line < len(document) else at
    return [document[:at]], [document[at:]]


def _digest(document: str) -> bytes:
    return sha256(document.encode("utf-8", "surrogatepass")).digest()


def _files(path: Path, setting: str) -> list[Path]:
    if path.is_dir():
        if not (found := _in_folder(path, SUFFIXES, "**/*")):
            raise ConfigError(setting, f"has no .txt, .txt.gz or .parquet file: {path}")
        return found
    if not path.is_file():
        raise ConfigError(setting, f"is no file and no folder: {path}")
    if path.name.endswith(QUESTIONS):
        raise ConfigError(setting, f"cannot be JSON lines: {path} (a text, or Parquet)")
    return [path]


def _in_folder(folder: Path, suffixes: tuple[str, ...], pattern: str) -> list[Path]:
    """The files with these endings in a folder that are not hidden, in the order of their paths."""
    found = (path for path in folder.glob(pattern) if path.name.endswith(suffixes))
    return sorted(path for path in found if path.is_file() and not is_hidden(path, folder))


def _documents(path: Path, column: str, setting: str) -> Iterator[str]:
    if path.name.endswith(_PARQUET):
        yield from _parquet(path, column, setting)
        return
    text = read_text(path, setting).replace("\r\n", "\n")
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.strip() == SEPARATOR:
            yield "".join(lines)
            lines = []
        else:
            lines.append(line)
    yield "".join(lines)


def _parquet(path: Path, column: str, setting: str) -> Iterator[str]:
    pyarrow = optional(setting, "pyarrow", "ArrowException", "pyarrow")
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if column not in names:
            raise ConfigError("task.column", f"is {column!r}, but {path} has {', '.join(names)}")
        for batch in file.iter_batches(columns=[column]):
            for value in batch.column(0).to_pylist():
                if value is not None and not isinstance(value, str):
                    raise ConfigError("task.column", f"{column!r} of {path} holds no text")
                yield (value or "").replace("\r\n", "\n")
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None
