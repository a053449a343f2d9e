"""Tables as R and pandas write them: the same numbers, and nothing that is none."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.fetch import csv_table, description, fetch
from looplab.openml_eval.settings import FetchSettings
from looplab.openml_eval.tables import read_table

ROWS = [(f"{i % 7 - 3}.5", f"{i % 5}.25", "no" if i < 30 else "yes") for i in range(60)]
XS = np.array([[float(a), float(b)] for a, b, _ in ROWS])
Line = Callable[[int, Sequence[str]], str]


def comma(_: int, row: Sequence[str]) -> str:
    return ",".join(row)


# Of a file: its name, its header and how its rows are written.
FILES: dict[str, tuple[str, str, Line]] = {
    "R, with names": ("a.csv", '"","a","b","y"', lambda i, row: f'"{i + 1}",{comma(i, row)}'),
    "R, write.table": ("a.csv", '"a","b","y"', lambda i, row: f'"r{i}",{comma(i, row)}'),
    "pandas": ("a.csv", ",a,b,y", lambda i, row: f"{i},{comma(i, row)}"),
    "R, rownames": ("a.csv", "rownames,a,b,y", lambda i, row: f"r{i},{comma(i, row)}"),
    "tabs": ("a.tsv", "a\tb\ty", lambda _, row: "\t".join(row)),
    "semicolons": ("a.csv", "a;b;y", lambda _, row: ";".join(row)),
    "spaces": ("a.csv", "a, b, y", lambda _, row: ", ".join(row)),
    "gzipped": ("a.csv.gz", "a,b,y", comma),
    "a mark of UTF-8": ("a.csv", "\ufeffa,b,y", comma),
}


@pytest.mark.parametrize("name", FILES)
def test_features_are_the_columns_of_numbers(name: str, tmp_path: Path) -> None:
    file, header, line = FILES[name]
    text = "\n".join([header, *(line(i, row) for i, row in enumerate(ROWS))]) + "\n"
    path = tmp_path / file
    path.write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
    table = csv_table(path)
    assert (table.name.lower(), table.features, table.classes) == ("a", ("a", "b"), ("no", "yes"))
    np.testing.assert_array_equal(table.xs, XS)
    lines = description(table)
    assert lines[1] == "  target y; features a, b"
    is_named = name.startswith(("R", "pandas"))
    assert any("left out, row names" in each for each in lines) == is_named
    settings = FetchSettings((str(path),), str(tmp_path / "data"))
    fetch(settings)
    assert "0 of them fetched now" in fetch(settings)
    np.testing.assert_array_equal(read_table(tmp_path / "data", table.name).xs, XS)


def write(path: Path, *columns: Sequence[object]) -> Path:
    """A file of columns a, b, … and the last, y."""
    names = [*"abcdef"[: len(columns) - 1], "y"]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")
    return path


def test_an_empty_field_and_a_question_mark_are_no_class(tmp_path: Path) -> None:
    for missing in ("", "?"):
        with pytest.raises(RunError, match="1 of 60 rows have no class"):
            csv_table(
                write(tmp_path / "a.csv", range(60), [missing, *["some", "none"] * 29, "some"])
            )


def test_true_and_false_are_numbers_and_a_word_among_numbers_is_missing(tmp_path: Path) -> None:
    flags, classes = ["TRUE", "FALSE"] * 30, ["x"] * 20 + ["y"] * 40
    table = csv_table(write(tmp_path / "a.csv", range(60), flags, ["NA", "k"] * 30, classes))
    assert table.features == ("a", "b")
    np.testing.assert_array_equal(table.xs[:2, 1], [1, 0])
    for word in ("NA", "nan", "None"):
        with pytest.raises(RunError, match="missing or not finite \\(1 in 'a', of 60 rows\\)"):
            csv_table(write(tmp_path / "a.csv", [word, *range(59)], classes))
