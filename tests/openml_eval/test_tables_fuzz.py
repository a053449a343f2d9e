"""Whatever a DataFrame holds: a table that keeps its numbers, on disk too, or one line why not."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from looplab.openml_eval.fetch import csv_table
from looplab.openml_eval.tables import LEAST_ROWS

ROWS = LEAST_ROWS
FINITE = st.floats(-1e300, 1e300, allow_subnormal=True)


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
