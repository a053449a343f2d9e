"""What becomes a table, and what is refused; tables on disk: whole, or refused."""

import hashlib
import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.tables import LEAST_ROWS, Source, Table, read_table, write_table


def frame(rows: int = 60) -> pandas.DataFrame:
    index = np.arange(rows)
    return pandas.DataFrame(
        {
            "age": index * 0.5,
            "town": ["a", "b", "c"] * (rows // 3) + ["a"] * (rows % 3),
            "children": index % 4,
            "same": 7.0,
            "bought": np.where(index % 5 < 2, "yes", "no"),
        }
    )


def test_numeric_columns_that_vary_and_the_classes_become_a_table() -> None:
    given = frame()
    before = given.copy()
    table = Table.from_frame("mine", given, "bought")
    assert table.features == ("age", "children")
    np.testing.assert_array_equal(table.xs, given[["age", "children"]].to_numpy(dtype=float))
    assert table.classes == ("no", "yes")
    np.testing.assert_array_equal(table.ys, given["bought"] == "yes")
    assert [str(array.dtype) for array in (table.xs, table.ys)] == ["float64", "int64"]
    assert table.counts == (36, 24)
    assert table.source.target == "bought"
    assert table.source.openml_id is None
    assert table.source.notes == ("left out, not numeric: town", "left out, constant: same")
    pandas.testing.assert_frame_equal(given, before)


def test_what_numbers_the_rows_or_has_the_class_again_is_left_out_and_named() -> None:
    """In any order and steps, with gaps under a name for it; a year is a feature."""
    index = np.arange(60)
    given = frame().assign(
        age=index,
        back=600 - 10.0 * index,
        shuffled=index * 7 % 60,
        PassengerId=index**2,
        Index=[1, 2] * 30,
        flag=frame()["bought"] == "no",
        year=1990 + index // 2,
        squares=index**2,
    )
    table = Table.from_frame("mine", given, "bought")
    assert table.features == ("children", "year", "squares")
    assert table.source.notes == (
        "left out, numbers of the rows: age, back, shuffled, PassengerId",
        "left out, not numeric: town",
        "left out, constant: same",
        "left out, row names: Index",
        "left out, the class again: flag",
    )


def test_a_column_is_of_the_type_that_its_values_have() -> None:
    values = frame()["age"].tolist()
    given = frame().assign(
        objects=pandas.Series(values, dtype=object),
        decimals=[Decimal(value) for value in values],
        texts=[str(value) for value in values],
        whole=pandas.Series([int(value**2) for value in values], dtype="Int64"),
        arrow=pandas.Series(values, dtype="double[pyarrow]"),
    )
    table = Table.from_frame("mine", given, "bought")
    assert table.features == ("age", "children", "objects", "decimals", "whole", "arrow")
    np.testing.assert_array_equal(table.xs[:, 3], values)
    assert "left out, not numeric: town, texts" in table.source.notes


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (pandas.Categorical(["a", "z"] * 30, categories=["z", "unused", "a"]), ("z", "a")),
        ([1.5, -1.0] * 30, ("-1.0", "1.5")),
        ([10, 9] * 30, ("9", "10")),
    ],
)
def test_class_0_is_the_first_category_or_the_lesser_value(
    column: Any, classes: tuple[str, str]
) -> None:
    table = Table.from_frame("mine", frame().assign(bought=column))
    assert table.classes == classes
    np.testing.assert_array_equal([table.classes[y] for y in table.ys], [str(y) for y in column])


def test_a_mark_of_missing_values_is_a_note_and_columns_of_levels_have_joined_names() -> None:
    given = _holed("age", [3, 5], -999).assign(empty=np.nan)
    table = Table.from_frame("mine", given, "bought")
    assert table.features == ("age", "children")
    assert "left out, not numeric: town, empty" in table.source.notes
    assert table.source.notes[-1] == "2 in 'age' are -999, as if they were missing"
    given.columns = pandas.MultiIndex.from_product([["all"], given.columns])
    with pytest.raises(RunError, match="mine has no column 'all'; its columns: "):
        Table.from_frame("mine", given, "all")
    table = Table.from_frame("mine", given, ("all", "bought"))
    assert table.features == ("('all', 'age')", "('all', 'children')")


def _holed(name: str, where: list[int], value: Any = None) -> pandas.DataFrame:
    given = frame()
    given.loc[where, name] = value
    return given


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: frame(LEAST_ROWS - 1), "mine has 40 rows, and a prompt takes 41"),
        (
            lambda: _holed("bought", [3, 5]),
            "2 of 60 rows have no class (column 'bought'); leave those rows out",
        ),
        (
            lambda: frame().assign(bought=range(60)),
            "has 60 different values (0, 1, 2, 3, 4 and 55 more), where two classes are needed",
        ),
        (
            lambda: _holed("age", [3, 5, 8], np.nan),
            "missing or not finite (3 in 'age', of 60 rows); leave those rows or columns out",
        ),
        (
            lambda: frame().assign(bought=["yes", "yes "] * 30),
            "has 1 different values (yes), where two classes are needed",
        ),
        (
            lambda: frame()[["town", "same", "bought"]],
            "mine has no numeric column that varies, beside its target; left out, not numeric: to",
        ),
        (
            lambda: frame().set_axis(["a", "town", "a", "same", "bought"], axis=1),
            "mine has two columns 'a': give each a name of its own",
        ),
    ],
)
def test_what_cannot_be_a_table_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(RunError) as refused:
        Table.from_frame("mine", make(), "bought")
    assert said in str(refused.value)
    assert str(refused.value).startswith("mine")
    assert "\n" not in str(refused.value)


def small(name: str = "small", openml_id: int | None = 7, rows: int = 50) -> Table:
    xs = np.random.default_rng(rows).normal(size=(rows, 2))
    source = Source(openml_id=openml_id, url="there", notes=("a note",))
    return Table(name, ("a", "b"), xs, np.arange(rows) % 2, ("no", "yes"), source)


def test_a_table_is_read_as_it_was_written_by_id_or_name(tmp_path: Path) -> None:
    table = small()
    write_table(tmp_path, table)
    for which in (7, "small"):
        back = read_table(tmp_path, which)
        np.testing.assert_array_equal(back.xs, table.xs)
        np.testing.assert_array_equal(back.ys, table.ys)
        assert (back.name, back.features, back.classes) == ("small", ("a", "b"), ("no", "yes"))
        assert back.source == table.source
        assert back.sha256 == hashlib.sha256((tmp_path / "small.npz").read_bytes()).hexdigest()
    assert sorted(os.listdir(tmp_path)) == ["small.json", "small.npz"]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _seal_another(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": "0" * 64}))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("small.npz", _flip),
        ("small.npz", _halve),
        ("small.npz", Path.unlink),
        ("small.json", _halve),
        ("small.json", _seal_another),
    ],
)
def test_damage_is_refused_with_the_path_and_what_to_do(
    name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    write_table(tmp_path, small())
    damage(tmp_path / name)
    with pytest.raises(RunError) as refused:
        read_table(tmp_path, "small")
    assert str(refused.value).startswith(f"{tmp_path / 'small.npz'} is missing or altered")
    assert "action=fetch" in str(refused.value)
    assert "\n" not in str(refused.value)
