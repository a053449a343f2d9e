"""The tokens of a text on disk, made once and kept for all runs.

with storing(folder := tokens_folder(key)):
    tokens, record = tokenised(folder, tokenizer, lambda: parts)
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from tqdm import tqdm

from looplab.conf.files import CACHE, cache_folder
from looplab.conf.mistakes import ConfigError, one_line

from .documents import TOKENS, holds_tokens
from .parts import PARTS, Chunk, Part, Parts, Source, chunks
from .tokens import Tokenizer

Tokens = NDArray[np.integer[Any]]
_BATCH = 2**22  # characters that are encoded at once, and tokens that are checked


@dataclass
class Counts:
    """What is known of a part of a text: its tokens, documents and bytes, the bytes that its tokens
    have `spelled`, and in the end its digest. Of tokens as they are the digest alone."""

    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    spelled: int = 0
    digest: str = ""


@dataclass
class Record:
    """What is known of both parts, of which so many batches are done."""

    batches: int
    parts: dict[Part, Counts]

    @property
    def is_whole(self) -> bool:
        """Says whether both parts are there."""
        return all(counts.digest for counts in self.parts.values())


def tokens_folder(key: str) -> Path:
    """The folder of what is made of the text with this key. Raises ConfigError where there is no
    place for it."""
    folder = cache_folder()
    if folder is None:
        problem = f"cannot be kept as tokens: the variable {CACHE} must name a folder"
        raise ConfigError("task.text", f"{problem}, as there is no home to be found")
    return folder / "tokens" / key


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
        problem = f"{one_line(error)} (the variable {CACHE} names another place)"
        raise ConfigError("task.text", f"cannot be kept as tokens in {folder}: {problem}") from None


def write(path: Path, content: str) -> None:
    """Write a text atomically."""
    partial = path.with_suffix(".partial")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(content)
        to_disk(file)
    os.replace(partial, path)


def to_disk(file: IO[Any]) -> None:
    """Wait until the disk has what was written: a record that says so must not come before it."""
    file.flush()
    os.fsync(file.fileno())


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
    record = _record(path)
    if record.is_whole:
        return tokens, record
    for part, stream in tokens.items():
        digest = sha256()
        for begin in range(0, len(stream), _BATCH):
            some = stream[begin : begin + _BATCH]
            if (most := some.max()) >= tokenizer.vocabulary:
                is_own = part == "held_out" and source.held_out_text
                file = source.held_out_text if is_own else source.text
                problem = f"has {tokenizer.vocabulary:,} tokens, but {file} has number {most:,}"
                raise ConfigError("task.tokens", problem)
            digest.update(some.tobytes())
        record.parts[part].digest = digest.hexdigest()[:16]
    write(path, json.dumps(asdict(record)))
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
        sizes = {part: record.parts[part].tokens * dtype.itemsize for part in PARTS}
        # A file opened to append stands at its end: one shorter than recorded is damaged.
        if any(files[part].tell() < sizes[part] for part in PARTS):
            record = _nothing()
            sizes = dict.fromkeys(PARTS, 0)
        if not record.is_whole:
            for part, size in sizes.items():
                # What was written after the last record may be half a batch.
                files[part].truncate(size)
            _tokenise(parts(), tokenizer, dtype, files, record, path)
    # A file may be longer: what follows the recorded tokens is not of the text.
    tokens: dict[Part, Tokens] = {}
    for part, counts in record.parts.items():
        tokens[part] = np.memmap(paths[part], dtype, "r", shape=(counts.tokens,))
    return tokens, record


def _tokenise(
    parts: Parts,
    tokenizer: Tokenizer,
    dtype: np.dtype[Any],
    files: Mapping[Part, IO[bytes]],
    record: Record,
    path: Path,
) -> None:
    """Add the tokens of all batches after those of the record to the files and to the record, which
    is written to `path` after each."""
    digests = {part: sha256() for part in PARTS}
    begun: set[Part] = set()
    lengths = tokenizer.lengths()
    pieces = chunks(parts.pieces("tokenising"), tokenizer.longest)
    for number, batch in enumerate(_batches(pieces), 1):
        for part, text, begins in batch:
            # A zero byte between two documents (none for False): where they part is in the digest.
            digests[part].update(b"\0" * (begins and part in begun))
            digests[part].update(text.encode("utf-8", "replace"))
            begun.add(part)
        # Tokenised before an interruption: read again for the digest, which is of all the text.
        if number <= record.batches:
            continue
        encoded = tokenizer.encode_all([chunk.text for chunk in batch])
        for (part, text, begins), tokens in zip(batch, encoded, strict=True):
            new = np.concatenate(([tokenizer.start] * begins, tokens)).astype(dtype)
            files[part].write(new.tobytes())
            counts = record.parts[part]
            counts.tokens += len(new)
            counts.documents += begins
            counts.bytes += len(text.encode("utf-8", "replace"))
            counts.spelled += int(lengths[new].sum())
        for file in files.values():
            to_disk(file)
        record.batches = number
        write(path, json.dumps(asdict(record)))
    for part, digest in digests.items():
        record.parts[part].digest = digest.hexdigest()[:16]
    write(path, json.dumps(asdict(record)))


def _batches(pieces: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    batch: list[Chunk] = []
    characters = 0
    for chunk in pieces:
        batch.append(chunk)
        characters += len(chunk.text)
        if characters >= _BATCH:
            yield batch
            batch = []
            characters = 0
    yield batch


def _record(path: Path) -> Record:
    """The record at `path`; an empty one where there is none, or it is damaged."""
    with suppress(OSError, ValueError, TypeError, LookupError):
        content = json.loads(path.read_text(encoding="utf-8"))
        parts = {part: Counts(**content["parts"][part]) for part in PARTS}
        return Record(content["batches"], parts)
    return _nothing()


def _nothing() -> Record:
    return Record(0, {part: Counts() for part in PARTS})


def _mapped(path: str, setting: str) -> Tokens:
    if not holds_tokens(path):
        raise ConfigError(setting, f"must be tokens as they are, a {TOKENS} as task.text: {path}")
    try:
        return np.memmap(path, "<u2", "r")
    except (OSError, ValueError) as error:
        raise ConfigError(setting, f"cannot be read: {path}: {one_line(error)}") from None
