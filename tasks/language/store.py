"""The tokens of a text on disk, made once and kept for all runs.

with storing(folder := tokens_folder(key)):
    tokens, record = tokenised(folder, tokenizer, lambda: parts)
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, one_line

from .documents import TOKENS, holds_tokens
from .parts import PARTS, Chunk, Part, Parts, Source, chunks
from .tokens import Tokenizer

Tokens = NDArray[np.integer[Any]]
_CACHE = "LOOPLAB_CACHE"  # a variable of the environment
_BATCH = 2**22  # characters that are encoded at once, and tokens that are checked


class Record(NamedTuple):
    """What is known of a text's tokens, of each part: their number, that of documents, and of all
    the digest; before it is there, how many batches are done. Of a text that is made tokens also
    its `bytes`, and how many its tokens have `spelled`."""

    batches: int
    tokens: dict[Part, int]
    documents: dict[Part, int]
    digests: dict[Part, str]
    bytes: dict[Part, int]
    spelled: dict[Part, int]


def tokens_folder(key: str) -> Path:
    """The folder of what is made of the text with this key, in `$LOOPLAB_CACHE`. Raises ConfigError
    for a user without a home, as containers have them, where the variable is not set."""
    place = Path(os.environ.get(_CACHE) or "~/.cache/looplab")
    try:
        return place.expanduser() / "tokens" / key
    except RuntimeError:
        problem = f"cannot be kept as tokens in {place}: the variable {_CACHE} must name a folder"
        raise ConfigError("task.text", f"{problem}, as this user has no home") from None


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Hold a folder, created if absent, against other processes, which are waited for, after a
    line. Raises ConfigError where nothing can be written there, or no more."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", fallback_to_soft=False)
        try:
            held = lock.acquire(timeout=1)
        except Timeout:
            tqdm.write("waiting for another process, which makes tokens of the same text")
            held = lock.acquire()
        with held:
            yield
    except (OSError, NotImplementedError) as error:
        problem = f"{one_line(error)} (the variable {_CACHE} names another place)"
        raise ConfigError("task.text", f"cannot be kept as tokens in {folder}: {problem}") from None


def write(path: Path, content: str) -> None:
    """Write a text atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(content, encoding="utf-8")
    os.replace(partial, path)


def as_they_are(
    folder: Path, source: Source, tokenizer: Tokenizer
) -> tuple[dict[Part, Tokens], Record]:
    """The tokens of files of uint16, of one file the end held out; a record of them is kept in the
    folder. Raises ConfigError for files that are none, and for tokens that the tokeniser has
    not."""
    train = _mapped(source.text, "task.text")
    if source.held_out_text:
        held_out = _mapped(source.held_out_text, "task.held_out_text")
    else:
        train, held_out = np.split(train, [int(len(train) * (1 - source.held_out))])
    tokens: dict[Part, Tokens] = {"train": train, "held_out": held_out}
    path = folder / f"{tokenizer.identity()}.json"
    if (record := _record(path)).digests:
        return tokens, record
    for part, found in tokens.items():
        digest = sha256()
        for begin in range(0, len(found), _BATCH):
            some = found[begin : begin + _BATCH]
            if (most := some.max()) >= tokenizer.vocabulary:
                problem = (
                    f"has {tokenizer.vocabulary:,} tokens, but {source.text} has number {most:,}"
                )
                raise ConfigError("task.tokens", problem)
            digest.update(some.tobytes())
        record.digests[part] = digest.hexdigest()[:16]
    write(path, json.dumps(record._asdict()))
    return tokens, record


def tokenised(
    folder: Path, tokenizer: Tokenizer, parts: Callable[[], Parts]
) -> tuple[dict[Part, Tokens], Record]:
    """The tokens of both parts, each document begun by the start token. They are made in the
    folder where they are not there; where a process has been killed, this one goes on."""
    dtype = np.dtype("<u2" if tokenizer.vocabulary <= 2**16 else "<u4")
    path = folder / f"{tokenizer.identity()}.json"
    paths = {part: path.with_suffix(f".{part}.bin") for part in PARTS}
    record = _record(path)
    with ExitStack() as stack:
        files = {part: stack.enter_context(open(paths[part], "ab")) for part in PARTS}
        if any(file.tell() < record.tokens[part] * dtype.itemsize for part, file in files.items()):
            record = _nothing()
        if not record.digests:
            for part, file in files.items():
                file.truncate(record.tokens[part] * dtype.itemsize)
            record = _tokenise(parts(), tokenizer, dtype, files, record, path)
    # A file may be longer: what follows the recorded tokens is not of the text.
    return {
        part: np.memmap(paths[part], dtype, "r", shape=(record.tokens[part],)) for part in PARTS
    }, record


def _tokenise(
    parts: Parts,
    tokenizer: Tokenizer,
    dtype: np.dtype[Any],
    files: Mapping[Part, IO[bytes]],
    record: Record,
    path: Path,
) -> Record:
    """Add the tokens of all batches after those of the record, which is written to `path` after
    each, to the files."""
    digests, begun = {part: sha256() for part in PARTS}, set[Part]()
    lengths = tokenizer.lengths()
    found = chunks(parts.pieces("tokenising"), tokenizer.longest)
    for number, batch in enumerate(_batches(found), 1):
        for part, text, begins in batch:
            digests[part].update(b"\0" * (begins and part in begun))
            digests[part].update(text.encode("utf-8", "replace"))
            begun.add(part)
        if number <= record.batches:
            continue
        encoded = tokenizer.encode_all([chunk.text for chunk in batch])
        for (part, text, begins), tokens in zip(batch, encoded, strict=True):
            new = np.concatenate(([tokenizer.start] * begins, tokens)).astype(dtype)
            files[part].write(new.tobytes())
            record.tokens[part] += len(new)
            record.documents[part] += begins
            record.bytes[part] += len(text.encode("utf-8", "replace"))
            record.spelled[part] += int(lengths[new].sum())
        for file in files.values():
            file.flush()
        record = record._replace(batches=number)
        write(path, json.dumps(record._asdict()))
    for part, digest in digests.items():
        record.digests[part] = digest.hexdigest()[:16]
    write(path, json.dumps(record._asdict()))
    return record


def _batches(found: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    batch, characters = list[Chunk](), 0
    for chunk in found:
        batch.append(chunk)
        characters += len(chunk.text)
        if characters >= _BATCH:
            yield batch
            batch, characters = [], 0
    yield batch


def _record(path: Path) -> Record:
    """The record at `path`; an empty one where there is none, or it is damaged."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        record = Record(**json.loads(path.read_text(encoding="utf-8")))
        parts = [record.tokens.keys(), record.documents.keys(), record.digests.keys() or {*PARTS}]
        if all(each == {*PARTS} for each in parts):
            return record
    return _nothing()


def _nothing() -> Record:
    tokens, documents, size, spelled = (dict.fromkeys(PARTS, 0) for _ in range(4))
    return Record(0, tokens, documents, {}, size, spelled)


def _mapped(path: str, setting: str) -> Tokens:
    if not holds_tokens(path):
        raise ConfigError(setting, f"must be tokens as they are, a {TOKENS} as task.text: {path}")
    try:
        return np.memmap(path, "<u2", "r")
    except (OSError, ValueError) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None
