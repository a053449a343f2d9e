"""Tables on disk: whole, or refused."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.tables.table import (
    Source,
    Table,
    TableError,
    find_table,
    read_table,
    write_table,
)


def small(name: str = "small", openml_id: int | None = 7, rows: int = 50) -> Table:
    xs = np.random.default_rng(rows).normal(size=(rows, 2))
    origin = Source(openml_id=openml_id, url="there", notes=("a note",))
    return Table(name, ("a", "b"), xs, np.arange(rows) % 2, ("no", "yes"), origin)


def test_a_table_is_read_as_it_was_written_by_id_or_name(tmp_path: Path) -> None:
    table = small()
    write_table(tmp_path, table)
    for which in (7, "small"):
        back = read_table(tmp_path, which)
        np.testing.assert_array_equal(back.xs, table.xs)
        np.testing.assert_array_equal(back.ys, table.ys)
        assert (back.name, back.features, back.classes) == ("small", ("a", "b"), ("no", "yes"))
        assert back.source == table.source
    assert sorted(os.listdir(tmp_path)) == ["small.json", "small.npz"]


@pytest.mark.parametrize(
    ("which", "word"), [(720, "720"), ("abalone", "720"), ("mine", "mine.csv")]
)
def test_one_that_is_not_there_is_refused_with_the_command_that_fetches_it(
    which: int | str, word: str, tmp_path: Path
) -> None:
    write_table(tmp_path, small())
    assert find_table(tmp_path, which) is None
    with pytest.raises(RunError) as refused:
        read_table(tmp_path, which)
    assert f"action=fetch tables={word} data_dir={tmp_path}" in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path} holds no table {which}")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _change(key: str, value: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, key: value}))

    return change


class Harm:
    """Unpickled, it ends the test."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return pytest.exit, ("a pickle was loaded",)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("small.npz", _flip),
        ("small.npz", _halve),
        ("small.npz", Path.unlink),
        ("small.json", _halve),
        ("small.json", _change("sha256", "0" * 64)),
    ],
)
@pytest.mark.parametrize("which", [7, "small"])
def test_damage_is_refused_with_the_path_and_what_to_do(
    name: str, damage: Callable[[Path], None], which: int | str, tmp_path: Path
) -> None:
    write_table(tmp_path, small())
    damage(tmp_path / name)
    with pytest.raises(RunError) as refused:
        read_table(tmp_path, which)
    if (damage, which) == (_halve, 7) and name == "small.json":  # whose it is is not known
        assert str(refused.value).startswith(f"{tmp_path} holds no table 7")
    else:
        assert "is damaged" in str(refused.value)
        assert str(refused.value).startswith(f"{tmp_path / 'small'}.")
    assert "action=fetch" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    """Not even with the right sha256."""
    path = write_table(tmp_path, small())
    numbers = path.with_suffix(".npz")
    np.savez(numbers, xs=np.array([Harm()]), ys=np.arange(1))
    _change("sha256", hashlib.sha256(numbers.read_bytes()).hexdigest())(path)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_table(tmp_path, 7)


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a\nb"])
def test_a_name_that_is_no_files_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be a table's name"):
        write_table(tmp_path, small(name))
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_the_table_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path, small())

    def half(file: IO[bytes], **_: Any) -> None:
        file.write(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path, small(rows=60))
    assert len(read_table(tmp_path, 7).ys) == 50


def test_a_new_file_beside_the_old_metadata_is_refused(tmp_path: Path) -> None:
    """As an interruption between the two leaves them."""
    path = write_table(tmp_path, small())
    before = path.read_bytes()
    write_table(tmp_path, small(rows=60))
    path.write_bytes(before)
    with pytest.raises(RunError, match="its sha256 is not the one in its JSON"):
        read_table(tmp_path, 7)


def test_a_million_rows_are_kept_and_read_in_little_more_memory_than_they_take(
    tmp_path: Path,
) -> None:
    xs = np.arange(8e6).reshape(1_000_000, 8)
    table = Table("large", tuple("abcdefgh"), xs, np.arange(1_000_000) % 2, ("a", "b"))
    size = xs.nbytes + table.ys.nbytes
    tracemalloc.start()
    try:
        write_table(tmp_path, table)
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        back = read_table(tmp_path, "large")
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert back.xs[-1, -1] == 8e6 - 1
    assert written < 50e6
    assert read < size + 50e6
