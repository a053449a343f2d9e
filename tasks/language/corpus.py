"""The tokens of a text on a device: all documents one after another, each begun by the start token.

corpus = load_corpus(Source("novels.txt", "text", "bytes", 0, 0.1, ""))
corpus.part("train", torch.device("cpu"))                 # int16 [tokens]
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError

from .documents import read_documents, split
from .tokens import Tokenizer, make_tokenizer

Part = Literal["train", "held_out"]
PARTS: tuple[Part, Part] = ("train", "held_out")
# The Hound of the Baskervilles (Arthur Conan Doyle, 1902) and Treasure Island (Robert Louis
# Stevenson, 1883), by chapters: in the public domain, from github.com/computationalstylistics/
# 100_english_novels, with the errors of its scans.
SHIPPED = Path(__file__).with_name("novels.txt.gz")


class Source(NamedTuple):
    """The origin of a text and the way it is made tokens: the settings of task=language, see there.
    `held_out` is a fraction, `held_out_text` a text in its place."""

    text: str
    column: str
    tokens: str
    vocabulary: int
    held_out: float
    held_out_text: str


class Corpus:
    """The tokens of both parts, with their tokeniser. `texts` are the documents."""

    def __init__(self, source: Source) -> None:
        self.source = source
        path = source.text or str(SHIPPED)
        documents = read_documents(path, source.column)
        if source.held_out_text:
            train = documents
            held_out = read_documents(source.held_out_text, source.column, "task.held_out_text")
        elif 0 < source.held_out < 1:
            train, held_out = split(documents, source.held_out)
        else:
            raise ConfigError("task.held_out", f"must lie between 0 and 1, got {source.held_out:g}")
        self.texts: dict[Part, Sequence[str]] = {"train": train, "held_out": held_out}
        self.tokenizer: Tokenizer = make_tokenizer(
            source.tokens, source.vocabulary, lambda: self.texts["train"]
        )
        self._tokens: dict[tuple[Part, torch.device], Tensor] = {}

    def part(self, part: Part, device: torch.device) -> Tensor:
        """The tokens of a part, [tokens], int16 or int32."""
        key = (part, device)
        if key not in self._tokens:
            self._tokens[key] = self._encoded(part).to(device)
        return self._tokens[key]

    def identity(self) -> dict[str, str]:
        """The identity of the tokens of both parts: sha256 of the texts, and the tokeniser's."""
        digests = {
            part: sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:16]
            for part, texts in self.texts.items()
        }
        return {"text": digests["train"], "held_out": digests["held_out"]} | {
            "tokens": self.tokenizer.identity()
        }

    def _encoded(self, part: Part) -> Tensor:
        tokenizer = self.tokenizer
        dtype = np.int16 if tokenizer.vocabulary < 2**15 else np.int32
        pieces = [
            np.concatenate(([tokenizer.start], tokenizer.encode(text))).astype(dtype)
            for text in self.texts[part]
        ]
        return torch.from_numpy(np.concatenate(pieces))


def load_corpus(source: Source) -> Corpus:
    """The corpus of a source; cached until one of its files changes. Raises ConfigError as
    `read_documents` and `make_tokenizer`, and for a fraction that is none."""
    paths = [source.text or str(SHIPPED), source.tokens, source.held_out_text]
    return _cached(source, tuple(map(_changed, paths)))


@lru_cache(maxsize=4)
def _cached(source: Source, changed: tuple[float, ...]) -> Corpus:
    return Corpus(source)


def _changed(path: str) -> float:
    """When a file, or a file of a folder, was last changed; 0 where there is none."""
    try:
        root = Path(path)
        files = [root, *root.rglob("*")] if root.is_dir() else [root]
        return max(file.stat().st_mtime for file in files)
    except OSError:
        return 0.0
