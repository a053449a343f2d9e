"""The tokens of a text on a device: all documents one after another, each begun by the start token.

corpus = load_corpus(Source("novels.txt", "text", "bytes", 0, 0.1, ""))
corpus.part("train", torch.device("cpu"))                 # uint16 [tokens]
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError

from .documents import holds_tokens, read_documents, text_files
from .packing import packed
from .parts import Part, Parts, Source, chunks
from .store import Tokens, as_they_are, storing, tokenised, tokens_folder, write
from .tokens import SHORT, Lengths, Tokenizer, lengths_in_text, make_tokenizer

# The Hound of the Baskervilles (Arthur Conan Doyle, 1902) and Treasure Island (Robert Louis
# Stevenson, 1883), by chapters: in the public domain, from github.com/computationalstylistics/
# 100_english_novels, with the errors of its scans.
SHIPPED = Path(__file__).with_name("novels.txt.gz")
_RULES = 2  # of how a text becomes tokens: those by others are not read
_ON_DEVICE = 2**30  # tokens; of more, each batch is gathered on the host


class Corpus:
    """The `tokens` of both parts, mapped from disk, with their tokeniser, and how many `documents`
    are held out: 0 where a text is tokens as they are. These have so many `bytes`, and their tokens
    have `spelled` so many. What is kept by the `key` is not read again."""

    def __init__(self, source: Source, key: str) -> None:
        folder = self._folder = tokens_folder(key)
        with storing(folder):
            if holds_tokens(source.text):
                self.tokenizer = make_tokenizer(
                    source.tokens, source.vocabulary, lambda: list(read_documents(source.text))
                )
                self.tokens, record = as_they_are(folder, source, self.tokenizer)
            else:
                parts = cache(lambda: Parts(source))
                self.tokenizer = _tokenizer(folder, source, parts)
                self.tokens, record = tokenised(folder, self.tokenizer, parts)
        held_out = record.parts["held_out"]
        self.documents = held_out.documents
        self.bytes = held_out.bytes
        self.spelled = held_out.spelled
        self._digests = {part: counts.digest for part, counts in record.parts.items()}
        self._rows: dict[int, dict[Part, Tokens]] = {}  # by points
        self._tensors: dict[tuple[Part, torch.device, int], Tensor] = {}

    def part(self, part: Part, device: torch.device) -> Tensor:
        """The tokens of a part, [tokens]: int16 or int32 on the device; uint16 or uint32 as on
        disk for the CPU, and for any device where they are too many."""
        return self._on(device, part, self.tokens[part], 0)

    def rows(self, part: Part, device: torch.device, points: int) -> Tensor:
        """The rows of whole documents of a part, [rows, points + 1], of the types of `part`. Raises
        ConfigError as `packed`, and where they cannot be kept."""
        if points not in self._rows:
            with storing(self._folder):
                self._rows[points] = packed(self._folder, self.tokens, self.tokenizer, points)
        return self._on(device, part, self._rows[points][part], points)

    def _on(self, device: torch.device, part: Part, tokens: Tokens, points: int) -> Tensor:
        """Tokens or, of `points`, rows of a part on a device; made once."""
        key = (part, device, points)
        if key not in self._tensors:
            if device.type == "cpu" or self.is_on_host(part):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # nobody writes to it
                    self._tensors[key] = torch.from_numpy(tokens)
            else:
                dtype = np.int16 if self.tokenizer.vocabulary < 2**15 else np.int32
                self._tensors[key] = torch.from_numpy(tokens.astype(dtype)).to(device)
        return self._tensors[key]

    @cached_property
    def lengths(self) -> Lengths:
        """The number of bytes of the held-out text that each token stands for, [vocabulary]; 0 for
        those that are not of the text, or less, as the `tokenizer` has it."""
        lengths = self.tokenizer.lengths()
        if self.documents:
            return lengths_in_text(lengths, self.bytes, self.spelled)
        lengths[self.tokenizer.special()] = 0
        return lengths

    def is_on_host(self, part: Part) -> bool:
        """Says whether a part is too large for a device."""
        return len(self.tokens[part]) >= _ON_DEVICE

    def identity(self) -> dict[str, str]:
        """The identity of the tokens of both parts: sha256 of the texts, and the tokeniser's."""
        text = self._digests["train"]
        held_out = self._digests["held_out"]
        return {"text": text, "held_out": held_out, "tokens": self.tokenizer.identity()}


def load_corpus(source: Source) -> Corpus:
    """The corpus of a source; cached until one of its files changes. Raises ConfigError as
    `Parts`, `storing`, `as_they_are` and `make_tokenizer`, and for a fraction that is none."""
    if not source.held_out_text and not 0 < source.held_out < 1:
        raise ConfigError("task.held_out", f"must lie between 0 and 1, got {source.held_out:g}")
    source = source._replace(text=source.text or str(SHIPPED))
    held_out: object = source.held_out
    if source.held_out_text:
        held_out = _stamps(text_files(source.held_out_text, "task.held_out_text"))
    # Not the tokeniser: files in the folder of a text are named by their tokeniser's identity.
    of_text = [_RULES, source.column, _stamps(text_files(source.text)), held_out]
    key = sha256(json.dumps(of_text).encode()).hexdigest()[:16]
    tokenizer = Path(source.tokens)
    changed = _stamps([tokenizer] if tokenizer.is_file() else [])
    return _cached(source, key, json.dumps(changed))


@lru_cache(maxsize=4)
def _cached(source: Source, key: str, changed: str) -> Corpus:
    return Corpus(source, key)


def _stamps(files: list[Path]) -> list[tuple[str, int, int]]:
    """What changes when one of these files does."""
    states = [(file, file.stat()) for file in files]
    return [(str(file.resolve()), state.st_size, state.st_mtime_ns) for file, state in states]


def _tokenizer(folder: Path, source: Source, parts: Callable[[], Parts]) -> Tokenizer:
    """The tokeniser; a byte-pair encoding is kept in the folder."""
    path = folder / f"bpe-{source.vocabulary}.json"
    if source.tokens == "bpe" and path.is_file():
        with suppress(ConfigError):  # a damaged one is trained anew
            # `tuple` stands for no documents: a tokeniser that is read is not trained.
            return make_tokenizer(str(path), source.vocabulary, tuple)

    def documents() -> Iterator[str]:
        pieces = parts().pieces("training a tokeniser")
        return (chunk.text for chunk in chunks(pieces, SHORT) if chunk.part == "train")

    tokenizer = make_tokenizer(source.tokens, source.vocabulary, documents)
    if source.tokens == "bpe":
        write(path, tokenizer.content())
    return tokenizer
