"""Tokenisers: the bytes of a text, or a byte-pair encoding of the package `tokenizers`.

tokenizer = make_tokenizer("bpe", 1024, lambda: documents)
numbers = tokenizer.encode("In the beginning")           # int64 [tokens]
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, one_line

Lengths = NDArray[np.number[Any]]
_BYTES = 256
SHORT = 2**16  # characters of a document that are encoded at once
_ONE_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a token for a byte of a character without a token


def nominal_vocabulary(kind: str, size: int) -> int:
    """The number of tokens, the start token among them, before any text is read: of a byte-pair
    encoding the `size` that is asked for."""
    if kind == "bpe":
        return size
    return make_tokenizer(kind, size, tuple).vocabulary


class Tokenizer(ABC):
    """The base class. Its tokens are 0 .. size - 1; `start`, which begins every document and every
    sequence, comes after them."""

    size: int

    @property
    def start(self) -> int:
        """The start token."""
        return self.size

    @property
    def vocabulary(self) -> int:
        """The number of tokens, the start token among them."""
        return self.size + 1

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int64]:
        """The tokens of a text, without start token."""

    def encode_all(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text, without start token."""
        return list(map(self.encode, texts))

    @cached_property
    def longest(self) -> int:
        """The most characters of a document that are encoded at once: few where a text that is cut
        between two words or lines has the same tokens, as with the bytes of GPT-2's."""
        # Tried on one text: SentencePiece, for one, may set a space before each text.
        apart = np.concatenate(self.encode_all(["a", " b\n", "c"]))
        return SHORT if np.array_equal(self.encode("a b\nc"), apart) else 2**24

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; a start token is a line `<|endoftext|>`."""
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token == self.start:
                parts.append([])
            else:
                parts[-1].append(token)
        return "\n<|endoftext|>\n".join(map(self._decode, parts))

    @abstractmethod
    def _decode(self, tokens: list[int]) -> str:
        """The text of tokens without start tokens."""

    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """The number of bytes that each token spells within a text, at least 1, [vocabulary]; 0
        for the start token, or -1 where the tokeniser puts a space before each document."""

    def special(self) -> list[int]:
        """The tokens, other than the start token, that others set between documents."""
        return []

    @abstractmethod
    def content(self) -> str:
        """The tokeniser as the text of its file; empty for bytes, which need none."""

    def identity(self) -> str:
        """A text that is the same for tokenisers with the same tokens."""
        content = self.content()
        return f"bpe {sha256(content.encode()).hexdigest()[:16]}" if content else "bytes"


class Bytes(Tokenizer):
    """The 256 bytes of UTF-8."""

    size = _BYTES

    def encode(self, text: str) -> NDArray[np.int64]:
        return np.frombuffer(text.encode("utf-8", "replace"), np.uint8).astype(np.int64)

    def _decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace")

    def lengths(self) -> NDArray[np.int64]:
        return np.append(np.ones(self.size, np.int64), 0)

    def content(self) -> str:
        return ""


class BytePairs(Tokenizer):
    """A tokeniser of the package `tokenizers`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.size = max(tokenizer.get_vocab().values()) + 1  # some leave numbers out

    @classmethod
    def trained(cls, documents: Iterable[str], vocabulary: int) -> BytePairs:
        """A byte-pair encoding of `vocabulary` tokens with the 256 bytes among them, as GPT-2's
        (Radford et al. 2019). Raises ConfigError where the text has not so many."""
        if vocabulary <= _BYTES:
            raise ConfigError(
                "task.vocabulary",
                f"must be at least {_BYTES + 1}, the bytes and the start token, got {vocabulary}",
            )
        package = _package()
        tokenizer = package.Tokenizer(package.models.BPE())
        tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = package.decoders.ByteLevel()
        trainer = package.trainers.BpeTrainer(
            vocab_size=vocabulary - 1,  # and the start token
            initial_alphabet=sorted(package.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(documents, trainer)
        if (size := tokenizer.get_vocab_size() + 1) < vocabulary:
            raise ConfigError(
                "task.vocabulary", f"is {vocabulary}, but the text gives no more than {size}"
            )
        return cls(tokenizer)

    @classmethod
    def of(cls, content: str, name: object) -> BytePairs:
        """The tokeniser of a file's text, which takes every text whole and always alike: what would
        cut it, pad it or draw its tokens is switched off. Raises ConfigError where it cannot be
        read."""
        try:
            tokenizer = _package().Tokenizer.from_str(content)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            if getattr(tokenizer.model, "dropout", None):
                tokenizer.model.dropout = None
            return cls(tokenizer)
        except ConfigError:
            raise
        except Exception as error:  # the package raises Exception itself
            raise ConfigError("task.tokens", f"cannot be read: {name}: {one_line(error)}") from None

    def encode(self, text: str) -> NDArray[np.int64]:
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        # Without halves of surrogate pairs.
        valid = [text.encode("utf-8", "replace").decode() for text in texts]
        encodings = self._tokenizer.encode_batch_fast(valid, add_special_tokens=False)
        return [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def lengths(self) -> NDArray[np.int64]:
        added = self._tokenizer.get_added_tokens_decoder()
        decoder = self._decoder()
        lengths = np.zeros(self.vocabulary, np.int64)
        for name, token in self._tokenizer.get_vocab().items():
            if "ByteFallback" in decoder and _ONE_BYTE.fullmatch(name):
                length = 1
            elif token in added:
                length = len(added[token].content.encode())
            elif "ByteLevel" in decoder:  # a character of it stands for a byte
                length = len(name)
            else:
                length = self._length_within(token)
            lengths[token] = max(length, 1)
        # What it spells beyond the text's bytes is the space that the tokeniser sets before it.
        text = self._tokenizer.decode([self._letter])
        added = int(lengths[self.encode(text)].sum()) - len(text.encode())
        lengths[self.start] = -max(added, 0)
        return lengths

    def special(self) -> list[int]:
        added = self._tokenizer.get_added_tokens_decoder()
        return [number for number, token in added.items() if token.special]

    def _decoder(self) -> set[str]:
        """The kinds of the parts of the decoder."""
        decoder = json.loads(self.content())["decoder"] or {}
        return {part["type"] for part in decoder.get("decoders", [decoder]) if part}

    def _length_within(self, token: int) -> int:
        """The bytes that a token adds to a text: at its beginning many a decoder takes a space
        off."""
        letter = self._tokenizer.decode([self._letter])
        with_token = self._tokenizer.decode([self._letter, token])
        return len(with_token.encode()) - len(letter.encode())

    @cached_property
    def _letter(self) -> int:
        """A token that is a letter, or any token where there is none."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        return min(
            (number for name, number in vocabulary.items() if name in ascii_letters),
            default=min(vocabulary.values()),
        )

    def content(self) -> str:
        return str(self._tokenizer.to_str())


def lengths_in_text(lengths: NDArray[np.int64], size: int, spelled: int) -> Lengths:
    """The number of bytes of a text that each of its tokens stands for, [vocabulary]. The text has
    `size` bytes, and its tokens, of the given lengths, spell so many: what the tokeniser normalises
    is shared out among all."""
    return lengths if size == spelled else lengths * (size / max(spelled, 1))


def make_tokenizer(
    tokens: str, vocabulary: int, documents: Callable[[], Iterable[str]]
) -> Tokenizer:
    """The tokeniser of `task.tokens`: bytes; bpe, trained on the documents for training, with this
    `vocabulary`; or that of a file. Raises ConfigError for a file that is absent or cannot be read,
    and where the package is not installed."""
    if tokens == "bytes":
        return Bytes()
    if tokens == "bpe":
        return BytePairs.trained(documents(), vocabulary)
    try:
        content = Path(tokens).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "task.tokens",
            f"must be bytes, bpe or a tokenizer.json, got {tokens!r} ({one_line(error)})",
        ) from None
    return BytePairs.of(content, tokens)


def _package() -> Any:
    return optional("task.tokens", "tokenizers", "Tokenizer", "'tokenizers==0.23.3'")
