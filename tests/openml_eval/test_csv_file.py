"""Tables as R and pandas write them: the same numbers, and nothing that is none."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.openml_eval.csv_file import csv_table
from looplab.openml_eval.fetch import description, fetch
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
    "Excel's separator": ("A.CSV", "sep=;\r\na;b;y\r", lambda _, row: ";".join(row) + "\r"),
    "empty lines": ("a.csv", "\n\na;b;y", lambda _, row: ";".join(row)),
    "a comment": ("a.csv", "# of lab 3, a and b\na,b,y", comma),
    "decimal commas": ("a.csv", "a;b;y", lambda _, row: ";".join(row).replace(".", ",")),
    "decimal commas in quotes": (
        *("a.csv", "a,b,y"),
        lambda _, row: '"{}","{}",{}'.format(*(value.replace(".", ",") for value in row)),
    ),
    "a separator at the end": ("a.csv", "a,b,y", lambda _, row: f"{comma(_, row)},"),
    "Excel's empty columns": ("a.csv", "a,b,y,,", lambda _, row: f"{comma(_, row)},,"),
    "a number sign": ("a.csv", "#,a,b,y", lambda i, row: f"{i + 1},{comma(i, row)}"),
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


def test_names_in_quotes_may_hold_the_other_separator_and_line_ends(tmp_path: Path) -> None:
    """In UTF-16, too; without its mark or in Latin-1 a text is a line."""
    path = tmp_path / "a.csv"
    text = "\n".join(['"größe, in cm";"b,\n in kg";y', *(";".join(row) for row in ROWS)])
    for encoding in ("utf-8", "utf-16"):
        path.write_bytes(text.encode(encoding))
        table = csv_table(path)
        assert table.features == ("größe, in cm", "b, in kg")
        np.testing.assert_array_equal(table.xs, XS)
    for encoding in ("utf-16-le", "latin-1"):
        path.write_bytes(text.encode(encoding))
        with pytest.raises(RunError, match=r"a\.csv cannot be read: "):
            csv_table(path)


def write(path: Path, *columns: Sequence[object]) -> Path:
    """A file of columns a, b, … and the last, y."""
    names = [*"abcdef"[: len(columns) - 1], "y"]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")
    return path


VALUES = [f"{i * i + 1}" for i in range(60)]  # no two alike, not in equal steps
CLASSES = ["x"] * 20 + ["y"] * 40


@pytest.mark.parametrize(
    "value", ["$1,234.50", "1,234", "1.234,50", "12.5 %", "1 234 €", "(12)", "1_000", "cm"]
)
def test_what_is_no_plain_number_among_numbers_is_a_line(value: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [f'"{value}"', *VALUES[1:]], CLASSES)
    with pytest.raises(RunError) as refused:
        csv_table(path)
    expected = f"{path} cannot be read: line 2: {value!r} in 'a', a column of numbers, which are"
    assert str(refused.value).startswith(expected)
    assert "mend it, or leave the line or the column out" in str(refused.value)
    all_alike = write(tmp_path / "a.csv", VALUES, [f'"{value}"'] * 60, CLASSES)
    if value == "cm":
        assert csv_table(all_alike).features == ("a",)  # it is text
    else:
        with pytest.raises(RunError, match=r"line 2: .* in 'b', a column of numbers"):
            csv_table(all_alike)


def test_commas_that_may_mark_thousands_are_a_line(tmp_path: Path) -> None:
    quoted = [f'"{1 + i % 9},{i:03}"' for i in range(60)]
    with pytest.raises(RunError, match="'1,000' in 'a', a column of numbers"):
        csv_table(write(tmp_path / "a.csv", quoted, CLASSES))
    decimals = [f'"{i},5"' for i in range(60)]
    with pytest.raises(RunError, match=r"line 2: '0,5' in 'a', .* with decimal commas in all"):
        csv_table(write(tmp_path / "a.csv", decimals, [f"{i}.234" for i in range(60)], CLASSES))
    table = csv_table(write(tmp_path / "a.csv", decimals, quoted, CLASSES))
    np.testing.assert_array_equal(table.xs[:2], [[0.5, 1], [1.5, 2.001]])
    with_text = write(tmp_path / "a.csv", VALUES, [*decimals[:30], *["two"] * 30], CLASSES)
    assert csv_table(with_text).features == ("a",)


def test_text_of_which_much_is_numbers_is_left_out_and_named(tmp_path: Path) -> None:
    """The Titanic's tickets, a household's children: 0, 1, 2, 3+."""
    tickets = [f"A/5 {i}" if i % 4 == 0 else f"{113803 + i * i}" for i in range(60)]
    children = ["0", "1", "2", "3+"] * 15
    table = csv_table(write(tmp_path / "a.csv", VALUES, tickets, children, ["NA"] * 60, CLASSES))
    assert table.features == ("a",)
    assert table.source.notes == ("left out, not numeric: b, c, d",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["0.5,1.5,1", *["0.25,1.5,0", "0.5,0.75,1"] * 30], "its first line has values, where the"),
        (["Results of lab 3", "", "a,b,y", *["1,2,x"] * 60], "line 1: names between commas, semic"),
        (["a|b|y", *["1|2|x"] * 60], "line 1: names between commas, semicolons or tabs"),
        (["", "a,b,y", *["1,2,x"] * 60, "1,2,x,"], "Expected 3 fields in line 63, saw 4"),
        (["a,b,y", *["1,2,x"] * 60, "3,4"], "1 of 61 rows have no class"),
        (["a,y", *["1,x", "2,y"] * 30, "3,"], "1 of 61 rows have no class"),
        (["a,y", *["1,x", "2,y"] * 30, "3,?"], "1 of 61 rows have no class"),
        (["# mine", "", "a,b,y", "", "1,2,x", "2,3,y", "Sum,5,"], "line 7: 'Sum' in 'a', a column"),
        (["", "a,b,y"], "a has 0 rows, and a prompt takes 41"),
        ([""], "line 1: names between commas"),
        (["a,b,a,y", *["1,2,3,x"] * 60], "a has two columns 'a': give each a name of its own"),
    ],
)
def test_a_header_that_does_not_fit_its_rows_is_a_line(
    lines: list[str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(RunError) as refused:
        csv_table(path)
    assert said in str(refused.value)


def test_true_and_false_are_numbers_and_a_word_among_numbers_is_missing(tmp_path: Path) -> None:
    flags = ["TRUE", "FALSE"] * 30
    days = [f"2024-01-{1 + i % 28:02}" for i in range(60)]
    table = csv_table(write(tmp_path / "a.csv", VALUES, flags, ["NA", "k"] * 30, days, CLASSES))
    assert table.features == ("a", "b")
    np.testing.assert_array_equal(table.xs[:2, 1], [1, 0])
    for word in ("NA", "nan", "None", "n/a", "-"):
        with pytest.raises(RunError, match="missing or not finite \\(1 in 'a', of 60 rows\\)"):
            csv_table(write(tmp_path / "a.csv", [word, *VALUES[1:]], CLASSES))


def test_classes_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    """As those of a DataFrame: 9 before 10, -1 before +1."""
    for lesser, greater in (("9", "10"), ("-1", "+1")):
        path = write(tmp_path / "a.csv", VALUES, [lesser, greater] * 30)
        np.testing.assert_array_equal(csv_table(path).ys[:2], [0, 1])
