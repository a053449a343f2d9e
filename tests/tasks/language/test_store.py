"""Tokens are made once, the same however often that is interrupted, and nothing half-made is used;
files of tokens are read as they are."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from looplab.conf.mistakes import ConfigError
from looplab.tasks.language import Language, corpus, parts, store
from looplab.tasks.language.documents import Piece
from looplab.tasks.language.tokens import Bytes, make_tokenizer
from tests.tasks.conftest import assert_same, generator, language_task

_TEXT = "<|endoftext|>\n".join(f"{name} saw {name} by the sea.\n" * 40 for name in "abcdefghij")


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(_TEXT)


def _task(**settings: object) -> Language:
    return language_task(**{"text": "text.txt", "held_out": 0.2} | settings)


def _all(task: Language) -> dict[str, list[int]]:
    return {part: tokens.tolist() for part, tokens in task.corpus.tokens.items()}


def test_tokens_are_those_of_the_documents() -> None:
    task = _task()
    tokens = _all(task)
    documents = _TEXT.split("<|endoftext|>\n")
    whole = task.tokenizer.decode([*tokens["train"], *tokens["held_out"]])
    assert sorted(whole.split("\n<|endoftext|>\n")[1:]) == sorted(documents)
    assert task.corpus.documents == 2


@pytest.mark.parametrize("tokens", ["bytes", "bpe"])
def test_a_second_start_reads_no_text(tokens: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    first = _task(tokens=tokens, vocabulary=270)
    made, identity = _all(first), first.data.identity()
    monkeypatch.setattr(parts, "read_pieces", None)
    second = _task(tokens=tokens, vocabulary=270)
    assert _all(second) == made
    assert second.data.identity() == identity
    # So does a run that keeps the tokeniser's file.
    Path("tokenizer.json").write_text(second.tokenizer.content())
    if tokens == "bpe":
        assert _all(_task(tokens="tokenizer.json")) == made


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_text_is_gone_on_with_after_a_kill(batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which comes while a batch is written; the files are then longer than is recorded."""
    monkeypatch.setattr(store, "_BATCH", 1000)
    whole = _task()
    tokens, identity = _all(whole), whole.data.identity()
    os.utime("text.txt", (1, 1))  # another key
    encode, calls = Bytes.encode_all, list[int]()

    def encode_all(self: Bytes, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        calls.append(len(texts))
        return encode(self, texts)

    def killed(path: Path, content: str) -> None:
        if len(calls) > batches:
            raise KeyboardInterrupt
        write(path, content)

    write = store.write
    monkeypatch.setattr(Bytes, "encode_all", encode_all)
    with monkeypatch.context() as patch:
        patch.setattr(store, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            _task().data.check()
    went_on = _task()
    assert _all(went_on) == tokens
    assert went_on.data.identity() == identity
    assert len(calls) > 8


def test_a_full_disk_is_one_line_and_nothing_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write", full)
        with pytest.raises(ConfigError, match=r"^task.text cannot be kept .*No space left"):
            _task().data.check()
    _task().data.check()


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int) -> None:
        raise KeyError(number)

    for variable in ("HOME", "LOOPLAB_CACHE"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr("pwd.getpwuid", none)
    with pytest.raises(ConfigError, match=r"^task.text cannot be kept .*LOOPLAB_CACHE must name"):
        _task().data.check()


def test_what_is_kept_and_damaged_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    monkeypatch.setenv("LOOPLAB_CACHE", "cache")
    given = {"tokens": "bpe", "vocabulary": 270}
    tokens = _all(_task(**given))
    (longer,), (record,), (encoding,) = (
        list(Path("cache").rglob(name))
        for name in ("*.train.bin", "bpe ????*.json", "bpe-270.json")
    )
    damages = (
        (longer, longer.read_bytes()[:100]),
        (longer, longer.read_bytes() + b"odd"),  # what is too much is left out
        (record, b'{"batches": 1, "parts": {}}'),
        (record, b'{"parts": {"train": []}}'),
        (record, b"[1]"),
        (record, b"{"),
        (encoding, encoding.read_bytes()[:100]),
    )
    for path, content in damages:
        path.write_bytes(content)
        assert _all(_task(**given)) == tokens


def test_long_documents_are_cut_where_tokens_are_the_same() -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    text = ("Fifteen  men on\tthe dead man's chest.\n \n = Yo-ho-ho! = \n\nÇá va, 日本\n" * 2000)[
        :-1
    ]
    tokenizer = make_tokenizer("bpe", 290, lambda: [text])
    for piece in ([Piece(text, True)], [Piece(text, False), Piece("", True)]):
        found = list(parts.chunks((("train", each) for each in piece), tokenizer.longest))
        assert len(found) > 1
        assert [chunk.begins for chunk in found] == [True] + [False] * (len(found) - 1)
        encoded = tokenizer.encode_all([chunk.text for chunk in found])
        assert np.array_equal(np.concatenate(encoded), tokenizer.encode(text))


def test_files_of_tokens_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(1000, dtype=np.uint16) % 256
    numbers.tofile("train.bin")
    numbers[:90].tofile("val.bin")
    task = _task(text="train.bin")
    assert _all(task) == {"train": numbers[:800].tolist(), "held_out": numbers[800:].tolist()}
    assert task.data.describe() == "800 tokens to train on; held out are 200 (20%)"
    other = _task(text="train.bin", held_out_text="val.bin")
    assert _all(other) == {"train": numbers.tolist(), "held_out": numbers[:90].tolist()}
    assert other.data.identity() != task.data.identity()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": "high.bin"}, "task.tokens has 257 tokens, but high.bin has number 50,256"),
        (
            {"text": "ok.bin", "held_out_text": "high.bin"},
            "task.tokens has 257 tokens, but high.bin has number 50,256",
        ),
        ({"text": "odd.bin"}, "task.text cannot be read: odd.bin"),
        ({"text": "high.bin", "tokens": "bpe"}, "task.text holds tokens"),
        ({"text": "text.txt", "held_out_text": "high.bin"}, "task.held_out_text holds tokens"),
        ({"text": "ok.bin", "held_out_text": "text.txt"}, "task.held_out_text must be tokens"),
        ({"text": "*.bin"}, "task.text cannot be read: ..bin"),
    ],
)
def test_files_of_tokens_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    np.array([1, 2, 50256], np.uint16).tofile("high.bin")
    np.arange(100, dtype=np.uint16).tofile("ok.bin")
    Path("odd.bin").write_bytes(b"odd")
    for _ in range(2):  # nothing is kept of it
        with pytest.raises(ConfigError, match=f"^{message}"):
            _task(**settings).data.check()


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint16), (2**16, np.uint32)])
def test_prompts_gathered_on_the_host_are_the_same(
    size: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of numbers beyond two bytes."""
    monkeypatch.setattr(Bytes, "size", size)
    prompts = _task().sample(generator(), batch=50, points=20)
    assert prompts.ys.max() == size
    monkeypatch.setattr(corpus, "_ON_DEVICE", 10)
    task = _task()
    assert task.corpus.tokens["train"].dtype == dtype
    assert task.data.is_on_host()
    assert_same(task.sample(generator(), batch=50, points=20), prompts)
