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
    they have at least this fraction of the characters. So a document stays where it is when others
    come or go. One that would make it more than twice the fraction, as a single document does, is
    cut. Its end is held out, from a line break on where there is one nearby. Or another text is.

    Kept are a digest and the length of each document. Raises ConfigError as `read_pieces`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        digests = array("Q")
        lengths = array("q")
        digest = sha256()
        length = 0
        for _, (text, ends) in self._read("reading"):
            # JSON may hold half of a surrogate pair, which has no UTF-8 of its own.
            digest.update(text.encode("utf-8", "surrogatepass"))
            length += len(text)
            if ends:
                digests.append(int.from_bytes(digest.digest()[:8], "big"))
                lengths.append(length)
                digest = sha256()
                length = 0
        self.characters = sum(lengths)
        self._lengths = np.array(lengths)
        self._places = _places(np.array(digests), self._lengths, source.held_out)

    def pieces(self, doing: str) -> Iterator[tuple[Part, Piece]]:
        """Read all documents, in the order of the text, each piece with its part; a bar says what
        is being done."""
        pieces = self._read(doing, self.characters)
        if self.source.held_out_text:
            yield from pieces
            return
        index = 0
        begin = 0
        for _, piece in pieces:
            yield from _divided(piece, begin, self._places[index], self._lengths[index])
            begin += len(piece.text)
            if piece.ends:
                index = index + 1
                begin = 0

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
    held = ""
    begins = True
    for part, (text, ends) in pieces:
        held += text
        at = 0
        while len(held) - at > most and (match := _BETWEEN_WORDS.match(held, at, at + most)):
            yield Chunk(part, held[at : match.end()], begins)
            at = match.end()
            begins = False
        held = held[at:]
        if ends:
            yield Chunk(part, held, begins)
            held = ""
            begins = True


def _divided(piece: Piece, begin: int, place: int, length: int) -> Iterator[tuple[Part, Piece]]:
    """A piece of a document of `length` characters, at the character `begin` of it, with its part;
    where the `place` lies in it, it is divided, after the line there, or in the line where less
    than half of the rest would remain."""
    text = piece.text
    if not begin <= place < begin + len(text):
        yield ("held_out" if begin > place else "train"), piece
        return
    line = text.find("\n", place - begin) + 1
    rest = length - begin - line
    at = line if line and rest >= (length - place) / 2 else place - begin
    yield "train", Piece(text[:at], True)
    yield "held_out", Piece(text[at:], piece.ends)


def _places(
    digests: NDArray[np.uint64], lengths: NDArray[np.int64], fraction: float
) -> NDArray[np.int64]:
    """The place in each document after which it is held out: -1 for those of the least digests that
    have this fraction of the characters together, the length for others. Where they had more than
    twice as much, the last of them is cut; where they are all documents, it is none of them."""
    order = np.argsort(digests, kind="stable")
    ends = np.cumsum(lengths[order])
    total = int(ends[-1])
    # All documents that begin below the fraction: the last of them reaches it.
    count = int((ends - lengths[order] < fraction * total).sum())
    places = lengths.copy()
    places[order[:count]] = -1
    last = order[count - 1]
    if len(order) == 1 or ends[count - 1] > 2 * fraction * total:
        # The characters that training's share lacks after the documents which are not held out.
        trained_on = int(total * (1 - fraction)) - (total - ends[count - 1])
        places[last] = min(trained_on, lengths[last] - 1)
    elif count == len(order):
        places[last] = lengths[last]
    return places
