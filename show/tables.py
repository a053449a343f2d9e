"""Tables and the sentences around them in the formats of `tables.format`.

document(["error, 64 prompts", Table(["k", "0", "5"], [["looped", "1.02", "0.13"]])], "markdown")
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap

from looplab.conf.schema import TableFormat

Cells = list[list[str]]  # of a table; the lines of the cells of a column


@dataclass(frozen=True)
class Table:
    """Rows of text below a header; rows shorter than the longest end in empty cells.

    The first column is flush left, the others right. Where a line of text is too short for all of
    them, columns are left out: those under the heads `spare`, in this order, then the last
    but one.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    spare: Sequence[str] = ()

    def cells(self) -> Cells:
        """The header and the rows, all of one length, each cell one line."""
        rows = [self.head, *self.rows]
        width = max(map(len, rows))
        cells = []
        for row in rows:
            texts = [text.replace("\n", " ") for text in row]
            cells.append(texts + [""] * (width - len(row)))
        return cells


Part = str | Table
_NARROWEST = 80  # characters of a line
_FOLDED = 16  # characters that a column of words has at least
_NAME = 40  # characters of a word that is kept whole
_WORD = re.compile("[A-Za-z]{4}")
_TO = re.compile(r"(?<=[\d∞]) to (?=\S)")  # of an interval
_NO_BREAK = "\u00a0"


def document(parts: Iterable[Part], form: TableFormat = "text", width: int | None = None) -> str:
    """Sentences and tables, each from a new line; an empty sentence is an empty line.

    Sentences are paragraphs in markdown, and comments in csv (#) and latex (%). Lines of text have
    at most `width` characters, 0: any number. None: those of the terminal or COLUMNS, but 80 at
    least, and any number where there is neither.
    """
    lines = list[str]()
    if form == "text":
        if width is None:
            # 0: neither a terminal nor COLUMNS, as in a pipe, whose lines are not folded.
            columns = shutil.get_terminal_size((0, 0)).columns
            width = max(columns, _NARROWEST) if columns else 0
        for part in parts:
            lines += _lines(part, width)
        return "\n".join(lines)
    for part in parts:
        if isinstance(part, Table):
            cells = [list(map(str.strip, row)) for row in part.cells()]
            lines += ["", _TABLES[form](cells), ""]
        else:
            lines += [_sentence(line, form) for line in part.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _sentence(text: str, form: TableFormat) -> str:
    """A line of text in a format that has a mark for what is no table."""
    if not text:
        return ""
    if form == "markdown":
        return f"{_in_markdown(text)}\n"
    return f"# {text}" if form == "csv" else f"% {text}"


def _lines(part: Part, width: int) -> list[str]:
    """The lines of a sentence or a table."""
    if isinstance(part, Table):
        return _table_lines(part, width)
    lines = []
    for line in part.split("\n"):
        lines += _folded(line, width, "  ")
    return lines


def _table_lines(table: Table, width: int) -> list[str]:
    """The lines of a table, with the columns that had no room named below."""
    columns = list[_Column]()
    for cells in zip(*table.cells(), strict=True):
        columns.append(_Column(cells, is_first=not columns))
    kept = list(columns)
    left_out = []
    # Columns go while even folded ones are too wide together; then the rest is folded to fit.
    while len(kept) > 2 and 0 < width < _together(column.least for column in kept):
        column = _spare_column(kept, table.spare)
        kept.remove(column)
        left_out.append(column.cells[0])
    if width:
        # Nothing where they fit: a negative excess has no character to take.
        _narrow(kept, _together(column.full for column in kept) - width)
    lines = []
    for row in zip(*(column.lines() for column in kept), strict=True):
        # A cell of fewer lines than others of its row goes on with blanks.
        for texts in zip_longest(*row, fillvalue=""):
            padded = [text.ljust(column.width) for column, text in zip(kept, texts, strict=True)]
            lines.append("  ".join(padded).rstrip())
    if left_out:
        full = _together(column.full for column in columns)
        names = "; ".join(left_out)
        note = f"columns left out at this width: {names}. COLUMNS={full} shows all"
        lines += _folded(note, width, "  ")
    return lines


def _spare_column(columns: Sequence[_Column], heads: Sequence[str]) -> _Column:
    """The column that is left out next: the last of the first of these heads, else the last but
    one; never the first."""
    for head in heads:
        for column in reversed(columns[1:]):
            if column.cells[0] == head:
                return column
    return columns[-2]


def _narrow(columns: Sequence[_Column], excess: int) -> None:
    """Take as many characters from the columns, one by one from the widest that can be folded."""
    for _ in range(excess):
        foldable = [column for column in columns if column.width > column.least]
        if not foldable:
            return
        widest = max(foldable, key=lambda column: column.width)
        widest.width -= 1


def _together(widths: Iterable[int]) -> int:
    """The width of columns with two spaces between them."""
    return sum(width + 2 for width in widths) - 2


class _Column:
    """A column of a table, as wide as it is without a fold.

    Its heading can be folded, and cells of words; `least` is the width below which a number or a
    word would be broken.
    """

    def __init__(self, cells: Sequence[str], is_first: bool) -> None:
        self.cells = cells
        self._hang = "  " if is_first else ""
        self.full = max(map(len, cells))
        self.width = self.full
        longest = []  # of each cell the longest piece that stays whole
        for cell in cells:
            # Folded to a width of 1, a line is what no width breaks.
            longest.append(max(map(len, _folded(cell, 1, self._hang)), default=0))
        self._words = self.full > _FOLDED and any(map(_WORD.search, cells[1:]))
        body = max(map(len, cells[1:]), default=0)
        if self._words:
            body = max(_FOLDED, *longest[1:])
        self.least = min(self.full, max(longest[0], body))

    def lines(self) -> Cells:
        """The lines of each cell. The first column is flush left, and words that are folded."""
        is_left = self._hang or (self._words and self.width < self.full)
        align = str.ljust if is_left else str.rjust
        lines = []
        for cell in self.cells:
            folded = _folded(cell, self.width, self._hang)
            lines.append([align(line, self.width) for line in folded])
        return lines


def _folded(text: str, width: int, hang: str) -> list[str]:
    """The lines of a text, those after the first further in by `hang`; at width 0 it is not folded.

    Folds are between words, but not in '0.1 to 0.2', and at the hyphens of a name that is too long
    for a line.
    """
    if len(text) <= width or not width:
        return [text]
    words = text.lstrip()
    indent = text[: len(text) - len(words)]
    longest = max(map(len, text.split()), default=0)
    # With hard spaces `wrap` keeps an interval in one line.
    lines = wrap(
        _TO.sub(f"{_NO_BREAK}to{_NO_BREAK}", words),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=longest > max(width, _NAME),
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _csv(cells: Cells) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().rstrip("\n")


def _markdown(cells: Cells) -> str:
    lines = [f"| {' | '.join(map(_in_markdown, row))} |" for row in cells]
    rule = [":--"] + ["--:"] * (len(cells[0]) - 1)
    lines.insert(1, f"| {' | '.join(rule)} |")
    return "\n".join(lines)


def _latex(cells: Cells) -> str:
    columns = "l" + "r" * (len(cells[0]) - 1)
    rows = [" & ".join(map(_in_latex, row)) + r" \\" for row in cells]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline"]
    lines += rows[1:]
    lines += [r"\hline", r"\end{tabular}"]
    return "\n".join(lines)


_TABLES: dict[TableFormat, Callable[[Cells], str]] = {
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}


def _in_markdown(text: str) -> str:
    """Text in which no character has a meaning for Markdown, HTML or formulas."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|$~#])", r"\\\1", text)


_LATEX = str.maketrans({character: rf"\{character}" for character in "&%$#_{}"})
_LATEX |= str.maketrans(
    {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        # Signs of our own labels that pdflatex has no letters for.
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "√": r"$\surd$",
        "‖": r"$\|$",
        "·": r"$\cdot$",
        "α": r"$\alpha$",
        "ε": r"$\varepsilon$",
        "λ": r"$\lambda$",
        "φ": r"$\varphi$",
        "η": r"$\eta$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "²": "$^2$",
        "ᵀ": r"$^\top$",
        "ₜ": "$_t$",
        "–": "--",
        "…": r"\dots{}",
    }
)
# A hyphen before a number, or in the exponent of one: not that of a date, a range or a name.
_MINUS = re.compile(r"(?<![\w.])-(?=\.?\d|∞|inf\b)|(?<=\de)-(?=\d)")


def _in_latex(text: str) -> str:
    """Text in which no character has a meaning for LaTeX, and numbers have a minus. A cell that
    begins with [ is no argument of the row's end before it."""
    text = _MINUS.sub("−", text)
    text = text.translate(_LATEX)
    return f"{{{text}}}" if text.startswith(("[", "*")) else text
