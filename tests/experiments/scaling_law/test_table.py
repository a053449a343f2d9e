"""Tables of losses: how they are read, grouped and refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.experiments.scaling_law.report import parabola_minimum
from looplab.experiments.scaling_law.table import ScalingTable, read_csv

HEADER = "loss,r,budget,N_once,N_rec,D\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_found_by_name_and_the_rest_are_labels(tmp_path: Path) -> None:
    text = HEADER + "2.5,4,1e18,0,3e10,1e9\n2.25,1,10e17,7,5,6\n"
    table = read_csv(written(tmp_path, text))
    assert table.loss.tolist() == [2.5, 2.25]
    assert table.r.tolist() == [4, 1]
    assert table.N_once.tolist() == [0, 7]
    assert table.N_rec.tolist() == [3e10, 5]
    assert table.D.tolist() == [1e9, 6]
    assert table.parameters.tolist() == [3e10, 12]
    assert table.labels == {"budget": ("1e18", "10e17")}
    assert len(table) == 2


def test_rows_that_agree_in_all_columns_are_a_group() -> None:
    ones = np.ones(5)
    r = np.array([2.0, 1.0, 2.0, 2.0, 1.0])
    labels = {"budget": ("10", "9", "9", "10.0", "9"), "run": ("a", "b", "a", "b", "c")}
    table = ScalingTable(ones, ones, r, ones, ones, labels)
    assert table.groups([]).tolist() == [0, 1, 2, 3, 4]
    assert table.groups(["r"]).tolist() == [1, 0, 1, 1, 0]
    assert table.groups(["budget"]).tolist() == [1, 0, 0, 1, 0]  # as numbers, 9 before 10
    assert table.groups(["run"]).tolist() == [0, 1, 0, 1, 2]
    assert table.groups(["r", "budget"]).tolist() == [2, 0, 1, 2, 0]
    with pytest.raises(RunError, match="no column budgte; did you mean 'budget'"):
        table.groups(["r", "budgte"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no column N_once; it is empty"),
        ("N_once,N_rec,r,loss\n", "has no column D; it has N_once, N_rec, r, loss"),
        (HEADER + "2.5,4,x,1,2,3\n0,4,x,1,2,3\n", "loss must be above 0, got 0.0 in row 2"),
        (HEADER + "2.5,4,x,-1,2,3\n", "N_once must be at least 0, got -1.0 in row 1"),
        (HEADER + "2.5,4,x,1,0,3\n", "N_rec must be above 0, got 0.0 in row 1"),
        (HEADER + "2.5,0,x,1,2,3\n", "r must be above 0, got 0.0 in row 1"),
        (HEADER + "2.5,4,x,1,2,-3\n", "D must be above 0, got -3.0 in row 1"),
        (HEADER + "nan,4,x,1,2,3\n", "loss must be above 0, got nan in row 1"),
        (HEADER + "2.5,4,x,1,2,inf\n", "D must be above 0, got inf in row 1"),
        (HEADER + "2.5,4,x,1,2,3\n2.5,4,x,1,2,3,000\n", "row 2 has 7 fields, the header 6 columns"),
        ("r," + HEADER + "1,2.5,4,x,1,2,3\n", "names the column 'r' twice"),
        (HEADER.replace("\n", ",budget\n"), "names the column 'budget' twice"),
        (HEADER + "2.5,many,x,1,2,3\n", "r must be a number, got 'many' in row 1"),
        (HEADER + "2.5,4,x,1\n", "N_rec must be a number, got '' in row 1"),
    ],
)
def test_a_table_that_cannot_be_is_one_line(text: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RunError, match=re.escape(expected)) as caught:
        read_csv(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"N_once\xff\xfe\n")
    with pytest.raises(RunError, match="cannot be read"):
        read_csv(path)


def test_the_lowest_point_of_a_parabola_in_log_n() -> None:
    sizes = np.array([2e7, 5e7, 9e7, 3e8])
    losses = 2.5 + 0.04 * np.log(sizes / 7e7) ** 2
    assert parabola_minimum(sizes, losses) == pytest.approx((7e7, 2.5))
    assert parabola_minimum(sizes[:2], losses[:2]) is None
    assert parabola_minimum(sizes, -losses) is None  # a highest point
    assert parabola_minimum(sizes[2:].repeat(2), losses[2:].repeat(2)) is None  # two sizes
    assert parabola_minimum(sizes[1:] * 3, losses[1:]) is not None
    falling = 2.5 + 0.04 * np.log(sizes / 7e8) ** 2  # lowest beyond the largest size
    assert parabola_minimum(sizes, falling) is None


def test_blanks_and_empty_ends_do_not_count(tmp_path: Path) -> None:
    rows = "0,10,1,5,4.5\n3,10,2,5,4\n"
    plain = read_csv(written(tmp_path, f"N_once,N_rec,r,D,loss\n{rows}"))
    blanks = " N_once, N_rec, r, D, loss,,\n,,,,,,\n" + rows.replace(",", ", ").replace(
        "\n", ",,\n\n"
    )
    table = read_csv(written(tmp_path, f"{blanks}\n,,\n"))
    for name in ("N_once", "N_rec", "r", "D", "loss"):
        assert getattr(table, name).tolist() == getattr(plain, name).tolist()
    assert not table.labels
