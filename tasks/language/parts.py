"""The two parts of a text, which every pass reads anew: documents to train on, and held-out ones.

for part, piece in Parts(source).pieces("tokenising"): ...
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from .documents import Piece, read_pieces

Part = Literal["train", "held_out"]
PARTS: tuple[Part, Part] = ("train", "held_out")
# The end of a word before a space and another word, or of a line before another.
_BETWEEN_WORDS = re.compile(r"(?s).*(?:\S(?= \S)|\S\n(?=\S))")


class Source(NamedTuple):
    """The origin of a text and the way it is made tokens: the settings of task=language, see there.
    `held_out` is a fraction, `held_out_text` a text in its place."""

    text: str
    column: str
    tokens: str
    vocabulary: int
    held_out: float
    held_out_text: str


class Chunk(NamedTuple):
    """As much of a document as is encoded at once, and whether it begins it."""

    part: Part
    text: str
    begins: bool


class Parts:
    """The documents of a text, `characters` long. Held out are those of the least sha256, until
    they have at least this fraction of the characters, so that a document stays where it is when
    others come or go; of a single document the end, from a line break on; or another text.

    Kept are a digest and the length of each document. Raises ConfigError as `read_pieces`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        digests, lengths = array("Q"), array("q")
        digest, length = sha256(), 0
        for _, (text, ends) in self._read("reading"):
            digest.update(text.encode("utf-8", "surrogatepass"))
            length += len(text)
            if ends:
                digests.append(int.from_bytes(digest.digest()[:8], "big"))
                lengths.append(length)
                digest, length = sha256(), 0
        self.characters = sum(lengths)
        self._is_held_out = _least(
            np.array(digests), np.array(lengths), source.held_out * self.characters
        )

    def pieces(self, doing: str) -> Iterator[tuple[Part, Piece]]:
        """Read all documents, in the order of the text, each piece with its part; a bar says what
        is being done."""
        pieces = self._read(doing, self.characters)
        if self.source.held_out_text:
            yield from pieces
        elif len(self._is_held_out) == 1:
            yield from self._cut(pieces)
        else:
            index = 0
            for _, piece in pieces:
                yield ("held_out" if self._is_held_out[index] else "train"), piece
                index += piece.ends

    def _cut(self, pieces: Iterable[tuple[Part, Piece]]) -> Iterator[tuple[Part, Piece]]:
        """The pieces of a single document, the end of which is held out."""
        at = min(int(self.characters * (1 - self.source.held_out)), self.characters - 1)
        begin = 0
        for _, piece in pieces:
            text, end = piece.text, begin + len(piece.text)
            if begin <= at < end:
                line = text.find("\n", at - begin) + 1
                place = line if 0 < line < self.characters - begin else at - begin
                yield "train", Piece(text[:place], True)
                yield "held_out", Piece(text[place:], piece.ends)
            else:
                yield PARTS[begin > at], piece
            begin = end

    def _read(self, doing: str, total: int | None = None) -> Iterator[tuple[Part, Piece]]:
        """All pieces with the part that their text is for, and a bar where they take longer than a
        second."""
        source = self.source
        texts = ("task.text", source.text), ("task.held_out_text", source.held_out_text)
        with tqdm(
            desc=doing, total=total, unit="ch", unit_scale=True, delay=1, leave=False, disable=None
        ) as bar:
            for part, (setting, path) in zip(PARTS, texts, strict=True):
                for piece in read_pieces(path, source.column, setting) if path else ():
                    yield part, piece
                    bar.update(len(piece.text))


def chunks(pieces: Iterable[tuple[Part, Piece]], most: int) -> Iterator[Chunk]:
    """The documents of such pieces, cut between two words or lines where they are longer than
    `most` characters."""
    held, begins = "", True
    for part, (text, ends) in pieces:
        held += text
        at = 0
        while len(held) - at > most and (found := _BETWEEN_WORDS.match(held, at, at + most)):
            yield Chunk(part, held[at : found.end()], begins)
            at, begins = found.end(), False
        held = held[at:]
        if ends:
            yield Chunk(part, held, begins)
            held, begins = "", True


def _least(
    digests: NDArray[np.uint64], lengths: NDArray[np.int64], wanted: float
) -> NDArray[np.bool_]:
    """Which documents are those of the least digests that have `wanted` characters together; the
    last of them all is none."""
    order = np.argsort(digests, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    found = np.zeros(len(digests), dtype=bool)
    found[order[:-1][before[:-1] < wanted]] = True
    return found
