"""Names that hold what the format of a table gives a meaning to."""

import csv
import io

from looplab.show.tables import Table, document

TABLE = Table(["R", "1", "64"], [["none", "1.25", "3"], ["", "±0.1"]])
NAME = r"a, b|c_d $x^2$ & <i>50 %</i> #1 {e} ~ \f *g*"


def test_csv_has_every_row_at_full_length_and_sentences_as_comments() -> None:
    lines = document(["error, 64 prompts", Table(["", NAME], [[NAME, "1"]])], "csv").splitlines()
    assert lines[:2] == ["# error, 64 prompts", ""]
    assert list(csv.reader(io.StringIO("\n".join(lines[2:])))) == [["", NAME], [NAME, "1"]]
    assert document([TABLE], "csv").splitlines()[-1] == ",±0.1,"


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


def test_numbers_in_latex_have_a_minus_and_words_a_hyphen() -> None:
    cells = ["-0.0305 to -.5", "4.2e-05", "-inf to 1", "k-NN", "2026-11-24", "grid-7"]
    row = document([Table(["", *"123456"], [["", *cells]])], "latex").splitlines()[-3]
    expected = ["$-$0.0305 to $-$.5", "4.2e$-$05", "$-$inf to 1", *cells[3:]]
    assert row == rf" & {' & '.join(expected)} \\"
