"""Tokenisers: what is encoded is decoded, each token has its bytes, mistakes are named."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.text.scores import tokens_of
from looplab.tasks.language.parts import Parts, Source
from looplab.tasks.language.tokens import BytePairs, Tokenizer, make_tokenizer
from tests.tasks.conftest import language_task

package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
_TEXT = "Fifteen men on the dead man's chest: Yo-ho-ho! Çá va — 日本\n" * 20


@pytest.fixture(params=["bytes", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return make_tokenizer(request.param, 280, lambda: [_TEXT])


def test_a_text_comes_back_and_its_bytes_are_counted(tokenizer: Tokenizer) -> None:
    """A start token separates documents."""
    tokens = tokenizer.encode(_TEXT)
    assert tokens.min() >= 0
    assert tokens.max() < tokenizer.size
    both = [*tokens.tolist(), tokenizer.start, *tokens.tolist()]
    assert tokenizer.decode(both) == f"{_TEXT}\n<|endoftext|>\n{_TEXT}"
    lengths = tokenizer.lengths()
    assert lengths.shape == (tokenizer.vocabulary,)
    assert lengths[tokens].sum() == len(_TEXT.encode())
    assert lengths[tokenizer.start] == 0


def _like_llama() -> BytePairs:
    """As Llama 2's: spaces are ▁, one is put before the text, bytes stand for rare characters."""
    trained = package.Tokenizer(package.models.BPE())
    trained.normalizer = package.normalizers.Sequence(
        [package.normalizers.Prepend("▁"), package.normalizers.Replace(" ", "▁")]
    )
    pieces = ["the", "th", "▁the", "▁man", "▁", *"Fiftenmnodas'chs:Yo-!\n"]
    names = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *dict.fromkeys(pieces)]
    vocabulary = {name: number for number, name in enumerate(names)}
    content = json.loads(trained.to_str())
    merges = [["t", "h"], ["th", "e"], ["▁", "the"]]
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
    # The space before the text is a byte of its first token, which the start token takes away.
    assert tokenizer.lengths()[tokens].sum() == len(_TEXT.encode()) + 1
    assert tokenizer.lengths()[tokenizer.start] == -1
    (the,) = tokenizer.encode("the")
    assert tokenizer.lengths()[the] == len(" the")


def _changing(name: str) -> Any:
    """A tokeniser of the package whose tokens are not the bytes of a text."""
    level = package.pre_tokenizers.ByteLevel
    made = package.Tokenizer(package.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = level(add_prefix_space=False), package.decoders.ByteLevel()
    alphabet = sorted(level.alphabet())
    accents = [package.normalizers.NFKD(), package.normalizers.StripAccents()]
    normalizers = {
        "lower": package.normalizers.Lowercase(),
        "accents": package.normalizers.Sequence(accents),
        "spaces": package.normalizers.Replace(package.Regex(" +"), " "),
    }
    if name in normalizers:
        made.normalizer = normalizers[name]
    elif name == "prefix":
        made.pre_tokenizer = level(add_prefix_space=True)
    else:  # characters without a token
        made.pre_tokenizer = package.pre_tokenizers.Metaspace()
        made.decoder = package.decoders.Metaspace()
        alphabet = []
    trainer = package.trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        initial_alphabet=alphabet,
        special_tokens=["<unk>", "<eos>"],
    )
    made.train_from_iterator(["the man's chest of fifteen men"], trainer)
    return made


@pytest.mark.parametrize("name", ["lower", "accents", "spaces", "prefix", "unknown"])
def test_bytes_are_those_of_the_text(name: str, tmp_path: Path) -> None:
    """Whatever a tokeniser changes; special tokens that the text spells are a part of it."""
    _changing(name).save(str(tmp_path / "tokenizer.json"))
    documents = [f"{n} FIFTEEN   men{' ' * (n % 7)}on <eos> the №{n} ﬁne  chést" for n in range(60)]
    lines = (json.dumps({"text": document}) for document in [*documents, " begun by a space"])
    (tmp_path / "text.jsonl").write_text("\n".join(lines))
    text = str(tmp_path / "text.jsonl")
    task = language_task(text=text, tokens=str(tmp_path / "tokenizer.json"), held_out=0.5)
    source = Source(text, "text", "", 0, 0.5, "")
    held_out = [piece.text for part, piece in Parts(source).pieces("") if part == "held_out"]
    size = sum(len(text.encode()) for text in held_out)
    tokens = task.corpus.tokens["held_out"].astype(np.int64)
    assert task.corpus.lengths[tokens].sum() == pytest.approx(size, rel=1e-12)
    of_file, lengths = tokens_of(held_out, task.tokenizer, 10**6)
    assert of_file.tolist() == tokens.tolist()
    assert lengths[of_file].sum() == pytest.approx(size, rel=1e-12)
    # A nat for each token: the start tokens, one a document, are not of the text.
    ys = torch.from_numpy(tokens)[None]
    bits = task.summary(torch.ones(ys.shape), ys)["bits_per_byte"]
    assert bits == pytest.approx((len(tokens) - len(held_out)) / math.log(2) / size)
    is_said = f"count the {size:,} bytes of the text there" in task.data.describe()
    assert is_said == (name not in ("prefix", "lower"))


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text("{}")
    for name, setting in {"words": "tokens", str(path): "tokens", "bpe": "vocabulary"}.items():
        with pytest.raises(ConfigError, match=rf"^task.{setting} "):
            make_tokenizer(name, 5000, lambda: [_TEXT])


@pytest.mark.parametrize("changed", [False, True])
def test_byte_pairs_are_the_same_from_their_file(changed: bool, tmp_path: Path) -> None:
    """Which takes every text whole where it says to cut, to pad or to draw."""
    trained = make_tokenizer("bpe", 280, lambda: [_TEXT])
    assert trained.vocabulary == 280
    assert len(trained.encode(_TEXT)) < len(_TEXT.encode()) / 1.5
    content = trained.content()
    if changed:
        other = package.Tokenizer.from_str(content)
        other.enable_truncation(8)
        other.enable_padding(length=64)
        other.model.dropout = 0.5
        content = other.to_str()
    (tmp_path / "tokenizer.json").write_text(content)
    read = make_tokenizer(str(tmp_path / "tokenizer.json"), 0, lambda: [])
    assert read.identity() == trained.identity()
    assert read.encode(_TEXT).tolist() == trained.encode(_TEXT).tolist()
