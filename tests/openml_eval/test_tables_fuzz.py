"""Whatever a DataFrame holds: a table that keeps its numbers, on disk too, or one line why not."""

from __future__ import annotations

import io
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from looplab.conf.mistakes import RunError
from looplab.openml_eval.fetch import csv_table
from looplab.openml_eval.tables import LEAST_ROWS, Table, read_table, write_table

ROWS = LEAST_ROWS
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
FINITE = st.floats(-1e300, 1e300, allow_subnormal=True)
VALUES = (
    *(FINITE, FINITE, st.integers(-(2**40), 2**40), FLOATS, st.booleans()),
    *(st.sampled_from(["a", "b", "c"]), st.just(7.0), st.one_of(st.none(), FINITE)),
)
NAMES = st.text("xyz é,\"'0", min_size=1, max_size=3)
KINDS = st.sampled_from(["object", "category", "as it is"])


@st.composite
def frames(draw: Any) -> tuple[pd.DataFrame, str]:
    """A DataFrame of up to four columns, and the one that is the target."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = draw(st.sampled_from([ROWS, ROWS, ROWS, ROWS + 3, ROWS - 1]))
    columns = []
    for name in names:
        values = draw(st.sampled_from(VALUES))
        few = draw(st.lists(values, min_size=1, max_size=5))
        column = pd.Series([few[i % len(few)] for i in range(rows)], name=name)
        kind = draw(KINDS)
        columns.append(column if kind == "as it is" else column.astype(kind))
    labels = draw(st.sampled_from([(0, 1), ("no", "yes"), (True, False), (1.5, -2.0), (3, 3)]))
    if draw(st.booleans()):
        columns.append(pd.Series([labels[i * i % 3 % 2] for i in range(rows)], name="target"))
    frame = pd.concat(columns, axis=1)
    return frame, str(frame.columns[-1])


def attempt(frame: pd.DataFrame, target: str) -> tuple[Table | None, str]:
    """The table, or why there is none."""
    try:
        return Table.from_frame("fuzzed", frame, target), ""
    except RunError as error:
        return None, str(error)


@given(frames())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_a_frame_is_a_table_that_stays_as_it_is_or_one_line(made: tuple[pd.DataFrame, str]) -> None:
    frame, target = made
    before = frame.copy(deep=True)
    table, problem = attempt(frame, target)
    pd.testing.assert_frame_equal(frame, before)
    if table is None:
        assert problem.startswith("fuzzed")
        assert "\n" not in problem
        return
    for index, name in enumerate(table.features):
        expected = frame[name].to_numpy(dtype=np.float64)
        np.testing.assert_array_equal(table.xs[:, index], expected)
        assert len(set(expected.tolist())) > 1
        assert all(math.isfinite(value) for value in expected)
    names = frame[target].map(str).tolist()
    assert [table.classes[y] for y in table.ys] == names
    with TemporaryDirectory() as folder:
        write_table(Path(folder), table)
        again = read_table(Path(folder), "fuzzed")
    assert (again.features, again.classes, again.counts) == (
        table.features,
        table.classes,
        table.counts,
    )
    np.testing.assert_array_equal(again.xs, table.xs)
    np.testing.assert_array_equal(again.ys, table.ys)


@given(st.lists(FINITE, min_size=2, max_size=9, unique=True), st.integers(0, 2**32))
@settings(max_examples=40)
def test_a_csv_gives_back_its_numbers_to_the_last_digit(values: list[float], seed: int) -> None:
    random = np.random.default_rng(seed)
    xs = random.choice(values, ROWS)
    xs[:2] = values[:2]
    text = io.StringIO()
    pd.DataFrame({"x": xs, "y": np.where(np.arange(ROWS) % 2, "b", "a")}).to_csv(text, index=False)
    with TemporaryDirectory() as folder:
        path = Path(folder, "mine.csv")
        path.write_text(text.getvalue(), encoding="utf-8")
        table = csv_table(path, "y")
    np.testing.assert_array_equal(table.xs[:, 0], xs)
