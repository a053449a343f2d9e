"""Tokenisers: what is encoded is decoded, each token has its bytes, mistakes are named."""

import json
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.tasks.language.tokens import BytePairs, Tokenizer, make_tokenizer

package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
_TEXT = "Fifteen men on the dead man's chest: Yo-ho-ho! Çá va — 日本\n" * 20


@pytest.fixture(params=["bytes", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
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


def test_byte_pairs_are_the_same_from_their_file(tmp_path: Path) -> None:
    trained = make_tokenizer("bpe", 280, lambda: [_TEXT])
    assert isinstance(trained, BytePairs)
    assert trained.vocabulary == 280
    assert len(trained.encode(_TEXT)) < len(_TEXT.encode()) / 1.5
    (tmp_path / "tokenizer.json").write_text(trained.content())
    read = make_tokenizer(str(tmp_path / "tokenizer.json"), 0, lambda: [])
    assert read.identity() == trained.identity()
    assert read.encode(_TEXT).tolist() == trained.encode(_TEXT).tolist()


def _like_llama() -> BytePairs:
    """As Llama 2's: spaces are ▁, one is put before the text, bytes stand for rare characters."""
    trained = package.Tokenizer(package.models.BPE())
    trained.normalizer = package.normalizers.Sequence(
        [package.normalizers.Prepend("▁"), package.normalizers.Replace(" ", "▁")]
    )
    pieces = ["the", "▁the", "▁man", "▁", *"Fiftenmnodas'chs:Yo-!\n"]
    names = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *dict.fromkeys(pieces)]
    vocabulary = {name: number for number, name in enumerate(names)}
    content = json.loads(trained.to_str())
    merges = [["t", "h"], ["th", "e"], ["▁", "the"]]
    for name in ("t", "h", "th", "e"):
        vocabulary.setdefault(name, len(vocabulary))
    content["model"] |= {"vocab": vocabulary, "merges": merges, "byte_fallback": True}
    decoders = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    content["decoder"] = {"type": "Sequence", "decoders": decoders}
    return BytePairs.of(json.dumps(content), "llama")


def test_bytes_of_tokens_whose_spaces_are_signs() -> None:
    tokenizer = _like_llama()
    tokens = tokenizer.encode(_TEXT)
    assert tokenizer.decode(tokens.tolist()) == _TEXT
    # The space before the text is a byte of its first token.
    assert tokenizer.lengths()[tokens].sum() == len(_TEXT.encode()) + 1
    (the,) = tokenizer.encode("the")
    assert tokenizer.lengths()[the] == len(" the")


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^task.tokens "):
        make_tokenizer("words", 0, lambda: [])
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"^task.tokens "):
        make_tokenizer(str(tmp_path / "wrong.json"), 0, lambda: [])
    with pytest.raises(ConfigError, match=r"^task.vocabulary "):
        make_tokenizer("bpe", 5000, lambda: [_TEXT])


def test_a_file_that_cuts_pads_or_draws_takes_every_text_whole(tmp_path: Path) -> None:
    plain = make_tokenizer("bpe", 280, lambda: [_TEXT])
    changed = package.Tokenizer.from_str(plain.content())
    changed.enable_truncation(8)
    changed.enable_padding(length=64)
    changed.model.dropout = 0.5
    (tmp_path / "tokenizer.json").write_text(changed.to_str())
    read = make_tokenizer(str(tmp_path / "tokenizer.json"), 0, lambda: [])
    assert read.encode(_TEXT).tolist() == plain.encode(_TEXT).tolist()
    assert read.identity() == plain.identity()
