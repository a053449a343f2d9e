"""What becomes a table, and what is refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

from looplab.openml_eval.tables.catalogue import TABLES
from looplab.openml_eval.tables.table import LEAST_ROWS, Table, TableError
from looplab.tasks.tables import TEN


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


def test_the_target_is_the_last_column_or_the_one_named() -> None:
    given = frame().assign(switch=lambda each: each["age"] > 3)
    assert Table.from_frame("mine", given).classes == ("False", "True")
    assert Table.from_frame("mine", given, "bought").features == ("age", "children", "switch")


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
        (lambda: frame().assign(bought="yes"), "has 1 different values (yes)"),
        (lambda: _holed("bought", [0], "maybe"), "has 3 different values (maybe, yes, no)"),
        (
            lambda: frame().assign(bought=range(60)),
            "has 60 different values (0, 1, 2, 3, 4 and 55 more), where two classes are needed",
        ),
        (
            lambda: _holed("age", [3, 5, 8], np.nan),
            "missing or not finite (3 in 'age', of 60 rows); leave those rows or columns out",
        ),
        (lambda: _holed("age", [3], np.inf), "not finite (1 in 'age', of 60 rows)"),
        (
            lambda: frame().assign(children=pandas.array([None, 1] * 30, dtype="Int64")),
            "(30 in 'children', of 60 rows)",
        ),
        (
            lambda: frame()[["town", "same", "bought"]],
            "mine has no numeric column that varies, beside its target 'bought'",
        ),
        (
            lambda: pandas.concat([frame()[["age"]], frame()], axis=1),
            "mine has more than one column named age",
        ),
        (pandas.DataFrame, "mine has no column 'bought'"),
    ],
)
def test_what_cannot_be_a_table_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(TableError) as refused:
        Table.from_frame("mine", make(), "bought")
    assert said in str(refused.value)
    assert str(refused.value).startswith("mine")
    assert "\n" not in str(refused.value)


def test_missing_values_of_columns_that_are_left_out_do_not_matter() -> None:
    table = Table.from_frame("mine", _holed("town", [1, 2]), "bought")
    assert len(table.ys) == 60


def test_a_million_rows_take_little_beside_the_table() -> None:
    index = np.arange(1_000_000)
    given = pandas.DataFrame({f"x{i}": index * (i + 0.5) for i in range(8)}).assign(y=index % 2)
    tracemalloc.start()
    try:
        table = Table.from_frame("large", given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.xs.shape == (1_000_000, 8)
    assert peak < table.xs.nbytes + table.ys.nbytes + 50e6


def test_the_task_trains_on_the_tables_of_the_catalogue() -> None:
    assert tuple(each.name for each in TABLES) == TEN
