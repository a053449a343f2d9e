"""Tokenisers: what is encoded is decoded, each token has its bytes, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reloop.conf.mistakes import ConfigError
from reloop.tasks.language.tokens import BytePairs, Bytes, Tokenizer, make_tokenizer

_TEXT = "Fifteen men on the dead man's chest: Yo-ho-ho! Çá va — 日本\n" * 20


@pytest.fixture(params=["bytes", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "bpe":
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    return make_tokenizer(request.param, 280, lambda: [_TEXT])


def test_a_text_comes_back_and_its_bytes_are_counted(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(_TEXT)
    assert tokens.min() >= 0
    assert tokens.max() < tokenizer.size
    assert tokenizer.decode(tokens.tolist()) == _TEXT
    lengths = tokenizer.lengths()
    assert lengths.shape == (tokenizer.vocabulary,)
    assert lengths[tokens].sum() == len(_TEXT.encode())
    assert lengths[tokenizer.start] == 0


def test_a_start_token_separates_documents(tokenizer: Tokenizer) -> None:
    first, second = tokenizer.encode("one"), tokenizer.encode("two")
    both = np.concatenate((first, [tokenizer.start], second)).tolist()
    assert tokenizer.decode(both) == "one\n<|endoftext|>\ntwo"


def test_bytes_are_utf8() -> None:
    assert Bytes().encode("Aé").tolist() == [65, 0xC3, 0xA9]
    assert Bytes().vocabulary == 257


def test_byte_pairs_are_the_same_from_their_file(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    trained = make_tokenizer("bpe", 280, lambda: [_TEXT])
    assert isinstance(trained, BytePairs)
    assert trained.vocabulary == 280
    assert len(trained.encode(_TEXT)) < len(_TEXT.encode()) / 1.5
    (tmp_path / "tokenizer.json").write_text(trained.content())
    read = make_tokenizer(str(tmp_path / "tokenizer.json"), 0, lambda: [])
    assert read.identity() == trained.identity()
    assert read.encode(_TEXT).tolist() == trained.encode(_TEXT).tolist()


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task.tokens must be bytes, bpe or a tokenizer.json"):
        make_tokenizer("words", 0, lambda: [])
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"task.tokens cannot be read: "):
        make_tokenizer(str(tmp_path / "wrong.json"), 0, lambda: [])
    with pytest.raises(ConfigError, match=r"task.vocabulary is 5000, but the text gives no more"):
        make_tokenizer("bpe", 5000, lambda: [_TEXT])
