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
from .store import Tokens, to_disk, write
from .tokens import Tokenizer

_BUFFER = 1000  # documents that a row chooses from
_BLOCK = 2**22  # tokens that are searched at once for the beginnings of documents


def packed(
    folder: Path, tokens: Mapping[Part, Tokens], tokenizer: Tokenizer, points: int
) -> dict[Part, Tokens]:
    """The rows of each part, [rows, points + 1], mapped from disk.

    `best_fit` makes them of `tokens`, and `folder`, which the caller holds, keeps them. Missing or
    damaged ones are made again. Raises ConfigError for a part with fewer tokens than a row, OSError
    where nothing can be written.
    """
    for part, what in zip(PARTS, ("text", "held-out text"), strict=True):
        if (count := len(tokens[part])) <= points:
            problem = f"is {points}, but the {what} has only {count} tokens; a row is {points + 1}"
            raise ConfigError("task.points", problem)
    path = folder / f"{tokenizer.identity()}.{points}.json"
    paths = {part: path.with_suffix(f".{part}.rows") for part in PARTS}
    counts = _stored_counts(path, paths, (points + 1) * tokens["train"].itemsize)
    if not counts:
        for part in PARTS:
            partial = paths[part].with_suffix(".partial")
            count = 0
            rows = best_fit(tokens[part], tokenizer.start, points + 1)
            with open(partial, "wb") as file:
                for row in tqdm(rows, "packing", unit="row", delay=1, leave=False, disable=None):
                    file.write(row.tobytes())
                    count += 1
                to_disk(file)
            os.replace(partial, paths[part])
            counts[part] = count
        write(path, json.dumps(counts))  # last: rows without it are not read
    rows_of: dict[Part, Tokens] = {}
    for part in PARTS:
        shape = (counts[part], points + 1)
        rows_of[part] = np.memmap(paths[part], tokens[part].dtype, "r", shape=shape)
    return rows_of


def _stored_counts(path: Path, paths: Mapping[Part, Path], size: int) -> dict[Part, int]:
    """The number of rows of each part, each of `size` bytes, by the record at `path`; {} without
    one, or where a file's size differs."""
    try:
        counts: dict[Part, int] = json.loads(path.read_text(encoding="utf-8"))
        is_whole = all(paths[part].stat().st_size == counts[part] * size for part in PARTS)
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return counts if is_whole else {}


def best_fit(tokens: Tokens, start: int, size: int) -> Iterator[NDArray[np.integer[Any]]]:
    """Rows [size] of whole documents, packed as nanochat does. Each begins with the token `start`.

    Of the next 1,000 documents the longest that fits goes into the row, again and again. Where none
    fits, the shortest is cut to fill it, and its rest is dropped. Of equally long ones the first in
    the text is chosen. A last row that is not full is dropped.
    """
    documents = _documents(tokens, start)  # pairs (length, place)
    # By length, then place: the order in which they are chosen.
    buffer = sorted(islice(documents, _BUFFER))
    row = np.empty(size, tokens.dtype)
    filled = 0
    while buffer:
        room = size - filled
        fitting = bisect_left(buffer, (room + 1, 0))  # the number of documents that fit
        if fitting:
            longest, _ = buffer[fitting - 1]
            first_of_longest = bisect_left(buffer, (longest, 0))
            length, begin = buffer.pop(first_of_longest)
        else:
            length = room
            _, begin = buffer.pop(0)  # the shortest, cut
        row[filled : filled + length] = tokens[begin : begin + length]
        filled += length
        if filled == size:
            yield row
            row = np.empty(size, tokens.dtype)
            filled = 0
        # One in for each one out: the buffer keeps 1,000 until the text ends.
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
