"""Rows of whole documents for training, made of a text's tokens once and kept beside them.

with storing(folder := tokens_folder(key)):
    rows = packed(folder, tokens, tokenizer, points=1024)["train"]     # [rows, 1025]
"""

import json
import os
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError

from .parts import PARTS, Part
from .store import Tokens, write
from .tokens import Tokenizer

_BUFFER = 1000  # documents that a row chooses from
_BLOCK = 2**22  # tokens that are searched at once for the beginnings of documents


def packed(
    folder: Path, tokens: Mapping[Part, Tokens], tokenizer: Tokenizer, points: int
) -> dict[Part, Tokens]:
    """The rows of both parts, [rows, points + 1], mapped from disk, as `best_fit` makes them of the
    parts' `tokens`. They are made in the folder, which the caller holds, where they are not there,
    or damaged. Raises ConfigError for a part with fewer tokens than a row, OSError where nothing
    can be written."""
    for part, what in zip(PARTS, ("text", "held-out text"), strict=True):
        if (count := len(tokens[part])) <= points:
            problem = f"is {points}, but the {what} has only {count} tokens; a row is {points + 1}"
            raise ConfigError("task.points", problem)
    path = folder / f"{tokenizer.identity()}.{points}.json"
    paths = {part: path.with_suffix(f".{part}.rows") for part in PARTS}
    counts = _kept(path, paths, (points + 1) * tokens["train"].itemsize)
    if not counts:
        for part in PARTS:
            partial = paths[part].with_suffix(".partial")
            count = 0
            rows = best_fit(tokens[part], tokenizer.start, points + 1)
            with open(partial, "wb") as file:
                for row in tqdm(rows, "packing", unit="row", delay=1, leave=False, disable=None):
                    file.write(row.tobytes())
                    count += 1
            os.replace(partial, paths[part])
            counts[part] = count
        write(path, json.dumps(counts))  # last: rows without it are not read
    rows_of: dict[Part, Tokens] = {}
    for part in PARTS:
        shape = (counts[part], points + 1)
        rows_of[part] = np.memmap(paths[part], tokens[part].dtype, "r", shape=shape)
    return rows_of


def _kept(path: Path, paths: Mapping[Part, Path], size: int) -> dict[Part, int]:
    """The numbers of rows, of `size` bytes, that the record at `path` counts; none where there is
    no record, or the files hold other numbers."""
    try:
        counts: dict[Part, int] = json.loads(path.read_text(encoding="utf-8"))
        is_whole = all(paths[part].stat().st_size == counts[part] * size for part in PARTS)
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return counts if is_whole else {}


def best_fit(tokens: Tokens, start: int, size: int) -> Iterator[NDArray[np.integer[Any]]]:
    """Rows [size] of whole documents, each document begun by the `start` token, as nanochat packs
    them: of the next 1,000 documents the largest that fits goes into the row, again and again;
    where none fits, the shortest is cut to fill it, and its rest is dropped. Of documents of one
    length the first comes first. At the end of the text a row that is not full is dropped."""
    documents = _documents(tokens, start)
    # By length, then place: the order in which they are chosen.
    buffer = sorted(islice(documents, _BUFFER))
    row = np.empty(size, tokens.dtype)
    filled = 0
    while buffer:
        fitting = bisect_left(buffer, (size - filled + 1, 0))
        if fitting:
            longest, _ = buffer[fitting - 1]
            length, begin = buffer.pop(bisect_left(buffer, (longest, 0)))
        else:
            length = size - filled
            begin = buffer.pop(0)[1]
        row[filled : filled + length] = tokens[begin : begin + length]
        filled += length
        if filled == size:
            yield row
            row = np.empty(size, tokens.dtype)
            filled = 0
        if document := next(documents, None):
            insort(buffer, document)


def _documents(tokens: Tokens, start: int) -> Iterator[tuple[int, int]]:
    """The length of each document, with its start token, and its place."""
    begin = 0
    for first in range(0, len(tokens), _BLOCK):
        for offset in np.flatnonzero(tokens[first : first + _BLOCK] == start).tolist():
            if first + offset:  # the first document begins the text
                yield first + offset - begin, begin
                begin = first + offset
    yield len(tokens) - begin, begin
