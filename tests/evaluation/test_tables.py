"""The four formats of a table, and names that hold what a format gives a meaning to."""

from __future__ import annotations

import csv
import io
from typing import get_args

from looplab.conf.schema import TableFormat
from looplab.evaluation.tables import Table, document

TABLE = Table(["R", "1", "64"], [["none", "1.25", "3"], ["", "±0.1"]])
NAME = r"a, b|c_d $x^2$ & <i>50 %</i> #1 {e} ~ \f *g*"


def test_columns_are_as_wide_as_they_need() -> None:
    text = document(["first", TABLE, "", "last"])
    assert text.splitlines() == [
        "first",
        "R        1  64",
        "none  1.25   3",
        "      ±0.1",
        "",
        "last",
    ]


def test_csv_has_every_row_at_full_length_and_sentences_as_comments() -> None:
    lines = document(["error, 64 prompts", Table(["", NAME], [[NAME, "1"]])], "csv").splitlines()
    assert lines[:2] == ["# error, 64 prompts", ""]
    assert list(csv.reader(io.StringIO("\n".join(lines[2:])))) == [["", NAME], [NAME, "1"]]
    assert document([TABLE], "csv").splitlines()[-1] == ",±0.1,"


def test_markdown_escapes_what_means_something_in_it() -> None:
    head, rule, row = document([Table(["", "x"], [[NAME, "1"]])], "markdown").splitlines()
    assert (head, rule) == ("|  | x |", "| :-- | --: |")
    assert row == (
        r"| a, b\|c\_d \$x^2\$ &amp; &lt;i&gt;50 %&lt;/i&gt; \#1 \{e\} \~ \\f \*g\* | 1 |"
    )
    assert document(["a_b", TABLE, "c", "d"], "markdown").split("\n\n")[0] == r"a\_b"


def test_latex_escapes_what_means_something_in_it() -> None:
    lines = document(["a 90 % interval", Table(["", "α"], [[NAME, "±1"]])], "latex").splitlines()
    assert lines[0] == "% a 90 % interval"
    assert lines[2:5] == [r"\begin{tabular}{lr}", r"\hline", r" & $\alpha$ \\"]
    assert lines[6] == (
        r"a, b\textbar{}c\_d \$x\textasciicircum{}2\$ \& \textless{}i\textgreater{}50 "
        r"\%\textless{}/i\textgreater{} \#1 \{e\} \textasciitilde{} \textbackslash{}f *g* & "
        r"$\pm$1 \\"
    )
    assert lines[-2:] == [r"\hline", r"\end{tabular}"]


def test_a_latex_row_does_not_begin_with_an_argument_of_the_last() -> None:
    lines = document([Table(["x"], [["[0, 1]"], ["*"]])], "latex").splitlines()
    assert lines[4:6] == [r"{[0, 1]} \\", r"{*} \\"]


def test_a_cell_is_one_line() -> None:
    for form in get_args(TableFormat):
        assert "a b" in document([Table(["x"], [["a\nb"]])], form)
