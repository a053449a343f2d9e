"""Texts of all forms, what is held out, and texts that cannot be read."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from reloop.conf.mistakes import ConfigError
from reloop.tasks.language.documents import eval_files, read_documents, split

_TWO = "one\nline\n<|endoftext|>\ntwo\n"


def test_a_text_is_read_from_a_file_a_folder_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(_TWO)
    assert read_documents(str(tmp_path / "a.txt")) == ["one\nline\n", "two\n"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt.gz").write_bytes(gzip.compress("\ufeffdrei\r\nvier".encode()))
    table = pyarrow.table({"text": ["five", None, "six"], "number": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "d.parquet")
    expected = ["one\nline\n", "two\n", "drei\nvier", "five", "six"]
    assert read_documents(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "task.text has no text"),
        ("a.txt", b" \n\n", "task.text has no text"),
        ("a.txt", b"text\0more", "task.text is no text but binary"),
        ("a.txt", b"caf\xe9 au lait", "task.text is not UTF-8: .*, byte 3 is 0xe9"),
        ("a.txt.gz", b"no gzip", "task.text cannot be read: "),
        ("a.parquet", b"no parquet", "task.text cannot be read: "),
    ],
)
def test_a_text_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message) as error:
        read_documents(str(tmp_path / name))
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_or_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task.text is no file and no folder"):
        read_documents(str(tmp_path / "absent.txt"))
    with pytest.raises(ConfigError, match=r"task.text has no .txt, .txt.gz or .parquet file"):
        read_documents(str(tmp_path))
    parquet.write_table(pyarrow.table({"body": ["a"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r"task.column is 'text', but .* has body, n"):
        read_documents(str(tmp_path / "a.parquet"))
    with pytest.raises(ConfigError, match=r"task.column 'n' of .* holds no text"):
        read_documents(str(tmp_path / "a.parquet"), "n")


def test_whole_documents_are_held_out() -> None:
    documents = [f"document {number} " + "x" * (10 * number) for number in range(30)]
    train, held_out = split(documents, 0.2)
    assert sorted(train + held_out) == sorted(documents)
    assert 0.2 <= sum(map(len, held_out)) / sum(map(len, documents)) < 0.3
    assert train == [document for document in documents if document not in held_out]
    # Another document moves at most those at the edge.
    more_train, more_held_out = split([*documents, "another"], 0.2)
    assert len(set(held_out) ^ (set(more_held_out) - {"another"})) <= 1
    assert set(more_train) | set(more_held_out) == {*documents, "another"}


def test_of_a_single_document_the_end_is_held_out() -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    (train,), (held_out,) = split([text], 0.1)
    assert train + held_out == text
    assert held_out.startswith("line ")
    assert 0.05 < len(held_out) / len(text) <= 0.1


def test_hidden_files_are_no_texts(tmp_path: Path) -> None:
    """Jupyter's copies, what macOS adds to files and archives; but a hidden folder may be given."""
    hidden = (".ipynb_checkpoints/a-checkpoint.txt", "._a.txt", "__MACOSX/a.txt", "b/.c.txt")
    for name in (*hidden, "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"one" if name == "a.txt" else b"\0\1")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "a.txt").write_text("two")
    assert read_documents(str(tmp_path)) == ["one"]
    assert read_documents(str(tmp_path / ".cache")) == ["two"]
    assert eval_files(str(tmp_path)) == [tmp_path / "a.txt"]


def test_many_documents_are_split_in_proportion_to_their_number() -> None:
    def seconds(count: int) -> float:
        documents = [f"story {i} of a small cat" for i in range(count)]
        start = time.process_time()
        split(documents, 0.1)
        return time.process_time() - start

    assert min(seconds(100_000) for _ in range(2)) < 100 * max(seconds(5_000) for _ in range(3))
