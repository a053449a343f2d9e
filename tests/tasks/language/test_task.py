"""Texts of all forms and what is held out; their prompts: pieces, the same for a seed, and never of
what is held out."""

import gzip
import json
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path

import pyarrow
import pytest
import torch
from pyarrow import parquet

from looplab.conf.mistakes import ConfigError
from looplab.tasks import Task
from looplab.tasks.language import Language
from looplab.tasks.language.documents import eval_files, read_documents, text_files
from looplab.tasks.language.parts import Parts, Source
from looplab.tasks.random_source import FreshNumbers
from tests.tasks.conftest import generator, language_task

_sink = pyarrow.BufferOutputStream()
parquet.write_table(pyarrow.table({"text": ["a", "b"]}), _sink)
_PARQUET = _sink.getvalue().to_pybytes()
_sink = pyarrow.BufferOutputStream()
parquet.write_table(pyarrow.table({"text": ["é" * 9]}), _sink, compression="none")
_LATIN = _sink.getvalue().to_pybytes().replace("é".encode() * 9, b"\xe9" * 18)
_TWO = "one\nline\n<|endoftext|>\ntwo\n"


def test_a_text_is_read_from_a_file_a_folder_and_parquet(tmp_path: Path) -> None:
    """Hidden files, as Jupyter's copies and what macOS adds, are no texts, nor is the .json that
    describes others."""
    no_texts = (".ipynb_checkpoints/a-checkpoint.txt", "._a.txt", "__MACOSX/a.txt", "infos.json")
    for name in no_texts:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\0\1")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "a.txt").write_text(_TWO)
    assert list(read_documents(str(tmp_path / "a.txt"))) == ["one\nline\n", "two\n"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt.gz").write_bytes(gzip.compress("\ufeffdrei\r\nvier".encode(), mtime=0))
    table = pyarrow.table({"text": ["five", None, "six"], "number": [1, 2, 3]})
    expected = ["one\nline\n", "two\n", "drei\nvier"]
    assert list(read_documents(str(tmp_path))) == expected
    parquet.write_table(table, tmp_path / "d.parquet")
    assert list(read_documents(str(tmp_path / "d.parquet"))) == ["five", "six"]
    assert list(read_documents(str(tmp_path / "*" / "*.gz"))) == ["drei\nvier"]
    (tmp_path / "e.jsonl").touch()
    with pytest.raises(ConfigError, match=r"^task.text mixes JSON lines, Parquet, plain text"):
        list(read_documents(str(tmp_path)))


def test_json_lines_hold_documents(tmp_path: Path) -> None:
    lines = [{"text": "one\u2028line"}, {"text": None}, {"text": "two", "n": 2}]
    content = "\n\n".join(map(json.dumps, lines)).encode()
    names = ("A.JSONL", "a.jsonl", "b.jsonl.gz", "c.json", "d.json.gz", "e.ndjson", "f.jsonlines")
    for name in names:
        is_compressed = name.endswith(".gz")
        (tmp_path / name).write_bytes(gzip.compress(content) if is_compressed else content)
    assert list(read_documents(str(tmp_path))) == ["one\u2028line", "two"] * len(names)
    assert [path.name for path in eval_files(str(tmp_path))] == list(names)
    assert len(list(read_documents(str(tmp_path / "*.jsonl*")))) == 6


def test_a_folder_has_what_links_lead_to_once(tmp_path: Path) -> None:
    """Among them a folder of another disk, and two that lead back."""
    corpus = tmp_path / "corpus"
    other = tmp_path / "other"
    for folder in (corpus / "inner", other):
        folder.mkdir(parents=True)
        for name in ("a.txt", "B.TXT"):
            (folder / name).write_text(f"{name} of {folder.name}")
    (other / "back").symlink_to(corpus)
    (corpus / "again").symlink_to(corpus / "inner")
    (corpus / "around").symlink_to(corpus)
    (corpus / "linked").symlink_to(other)
    (corpus / "one.txt").symlink_to(corpus / "inner" / "a.txt")
    (corpus / "two.txt").symlink_to(other / "a.txt")
    texts = ["B.TXT of inner", "B.TXT of other", "a.txt of inner", "a.txt of other"]
    for path in (corpus, corpus / "**" / "*.[tT]*", corpus / "**", corpus / "**" / "**" / "*"):
        assert sorted(read_documents(str(path))) == texts
    (corpus / "latest").symlink_to(tmp_path / "unmounted")  # no text, by its name
    (corpus / "0").write_text("of a cache, whose links have the names")
    (corpus / "0.txt").symlink_to(corpus / "0")
    assert len(text_files(str(corpus))) == 5
    (corpus / "gone.txt").symlink_to(tmp_path / "unmounted")
    for path in (corpus, corpus / "**"):
        with pytest.raises(ConfigError, match=r"^task.text has a link to nothing: .*(gone|latest)"):
            text_files(str(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b" \n\n"),
        ("a.txt", b"text\0more"),
        ("a.txt", b"caf\xe9 au lait"),
        ("a.txt", b"\xff\xfet\0e\0x\0t\0"),  # UTF-16
        ("a.txt.gz", b"no gzip"),
        ("a.txt.gz", gzip.compress(b"text" * 1000, mtime=0)[:-9]),
        ("a.parquet", b"no parquet"),
        ("a.parquet", _PARQUET[:-9]),
        ("a.parquet", _LATIN),
        ("a.jsonl", b'{"text": "cut o'),
        ("a.json", b'[{"text": "one"}, {"text": "two"}]'),
        ("a.bin", b"\1\2"),
        ("absent.txt", None),
        ("empty/folder", None),
    ],
)
def test_a_text_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None) -> None:
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=r"^task.text ") as error:
        list(read_documents(str(tmp_path / name)))
    assert str(tmp_path / name) in str(error.value)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"body": ["a"], "n": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"body": "a", "n": 1}')
    for column, name in product(("text", "n"), ("a.parquet", "b.jsonl")):
        with pytest.raises(ConfigError, match=r"^task.column "):
            list(read_documents(str(tmp_path / name), column))


def _split(folder: Path, documents: list[str], fraction: float) -> dict[str, list[str]]:
    """The documents of both parts."""
    path = folder / "split.parquet"
    parquet.write_table(pyarrow.table({"text": documents}), path)
    found: dict[str, list[str]] = {"train": [], "held_out": []}
    for part, piece in Parts(Source(str(path), "text", "bytes", 0, fraction, "")).pieces(""):
        found[part].append(piece.text)
    return found


def test_whole_documents_are_held_out(tmp_path: Path) -> None:
    documents = [f"document {number} " + "x" * (10 * number) for number in range(30)]
    train, held_out = _split(tmp_path, documents, 0.2).values()
    assert sorted(train + held_out) == sorted(documents)
    assert 0.2 <= sum(map(len, held_out)) / sum(map(len, documents)) < 0.3
    assert train == [document for document in documents if document not in held_out]
    # Those of the least digests.
    digests = {text: sha256(text.encode()).digest() for text in documents}
    assert max(digests[text] for text in held_out) < min(digests[text] for text in train)
    # Another document moves at most those at the edge.
    more_train, more_held_out = _split(tmp_path, [*documents, "another"], 0.2).values()
    assert len(set(held_out) ^ (set(more_held_out) - {"another"})) <= 1
    assert set(more_train) | set(more_held_out) == {*documents, "another"}


_LINES = "".join(f"line {number}\n" for number in range(100))
_LONG = "line\n" * 200 + "word " * 300  # its last line


@pytest.mark.parametrize("text", [_LINES, _LONG, _LONG + "\n", _LONG + "\nThe end.\n"])
def test_of_a_single_document_the_end_is_held_out(tmp_path: Path, text: str) -> None:
    (train,), (held_out,) = _split(tmp_path, [text], 0.1).values()
    assert train + held_out == text
    assert len(held_out) / len(text) == pytest.approx(0.1, abs=0.01)
    if text == _LINES:
        assert held_out.startswith("line ")


def test_a_tenth_is_held_out_with_one_enormous_document(tmp_path: Path) -> None:
    """Wherever its digest stands: with each seed other documents are held out."""
    cut = 0
    for seed in range(8):
        documents = [f"{seed} {number}\n" * 20 for number in range(60)]
        documents.insert(seed, f"enormous {seed}\n" * 2000)
        train, held_out = _split(tmp_path, documents, 0.1).values()
        share = sum(map(len, held_out)) / sum(map(len, documents))
        assert 0.09 < share < 0.12
        assert sorted("".join(train + held_out)) == sorted("".join(documents))
        cut += any("enormous" in text for text in held_out)
    assert cut > 0


_DOCUMENTS = [f"{letter}{letter.upper()}" * 100 for letter in "abcdefghij"]


@pytest.fixture
def task(tmp_path: Path) -> Language:
    path = tmp_path / "text.txt"
    path.write_text("\n<|endoftext|>\n".join(_DOCUMENTS))
    return language_task(text=str(path), held_out=0.2)


def _letters(task: Task) -> set[str]:
    tokens = task.sample(generator(1), batch=500, points=20).ys.unique()
    return {chr(token).lower() for token in tokens.tolist() if token < 128} - {"\n"}


def test_a_prompt_is_a_piece_of_the_text(task: Language) -> None:
    prompts = task.sample(generator(), batch=64, points=20)
    assert prompts.xs.shape == prompts.ys.shape == (64, 20)
    assert prompts.xs.dtype == torch.int64
    assert (prompts.xs[:, 0] == task.tokenizer.start).all()
    assert torch.equal(prompts.xs[:, 1:], prompts.ys[:, :-1])
    whole = task.tokenizer.decode(task.corpus.part("train", torch.device("cpu")).tolist())
    for row in prompts.ys.tolist():
        assert task.tokenizer.decode(row) in whole


def test_all_places_are_equally_likely(task: Language) -> None:
    stream = task.corpus.part("train", torch.device("cpu"))
    places = task.parameters(FreshNumbers(generator(), 20_000), 1)
    first = (places * (len(stream) - 20 + 1)).long()
    counts = torch.bincount(first * 10 // len(stream), minlength=10)[:9]
    assert first.max() <= len(stream) - 20
    assert (counts - counts.float().mean()).abs().max() < 5 * counts.float().mean().sqrt()


def test_what_is_held_out_is_not_trained_on(task: Language, tmp_path: Path) -> None:
    """Some of the text or a text of its own."""
    trained, held_out = _letters(task), _letters(task.for_evaluation())
    assert len(trained) == 8
    assert held_out == set("abcdefghij") - trained
    (tmp_path / "other.txt").write_text("z" * 100)
    other = replace(task, held_out_text=str(tmp_path / "other.txt"))
    assert _letters(other) == set("abcdefghij")
    assert _letters(other.for_evaluation()) == {"z"}


def test_fractions_and_lengths_that_cannot_be(task: Language) -> None:
    for held_out in (0.0, 1.0):
        with pytest.raises(ConfigError, match=r"^task.held_out "):
            replace(task, held_out=held_out).data.check()
    with pytest.raises(ConfigError, match=r"^task.points "):
        task.sample(generator(), 1, 5000)
    whole = task.corpus.part("train", torch.device("cpu"))
    assert torch.equal(task.sample(generator(), 1, len(whole)).ys[0], whole.long())


def test_the_text_that_ships_is_read_at_once() -> None:
    shipped = language_task().corpus
    assert shipped.documents > 3
    assert len(shipped.part("train", torch.device("cpu"))) > 500_000
