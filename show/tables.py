"""Tables and the sentences around them in the formats of `tables.format`.

document(["error, 64 prompts", Table(["k", "0", "5"], [["looped", "1.02", "0.13"]])], "markdown")
"""

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from looplab.conf.schema import TableFormat


@dataclass(frozen=True)
class Table:
    """Rows of text below a header; rows shorter than the longest end in empty cells. The first
    column is flush left, the others right. Where a line of text is too short for all of them, the
    columns of the heads `spare` are left out, the first one first, then the last but one."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    spare: Sequence[str] = ()

    def cells(self) -> list[list[str]]:
        """The header and the rows, all of one length, each cell one line."""
        width = max(map(len, (self.head, *self.rows)))
        return [
            [*(cell.replace("\n", " ") for cell in row), *[""] * (width - len(row))]
            for row in (self.head, *self.rows)
        ]


Part = str | Table
_Cells = list[list[str]]
_NARROWEST = 80  # characters of a line
_FOLDED = 16  # characters that a column of words has at least
_NAME = 40  # characters of a word that is kept whole
_WORD, _TO = re.compile("[A-Za-z]{4}"), re.compile(r"(?<=[\d∞]) to (?=\S)")


def document(parts: Iterable[Part], form: TableFormat = "text", width: int | None = None) -> str:
    """Sentences and tables, each from a new line; an empty sentence is an empty line. Sentences are
    paragraphs in markdown, and comments in csv (#) and latex (%). Lines of text have at most
    `width` characters, 0: any number; None: those of the terminal or COLUMNS, but 80 at least, and
    any number where there is neither."""
    if form == "text":
        if width is None:
            columns = shutil.get_terminal_size((0, 0)).columns
            width = max(columns, _NARROWEST) if columns else 0
        return "\n".join(line for part in parts for line in _lines(part, width))
    write_table, write_text = _WRITERS[form]
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts += map(write_text, part.split("\n"))
        else:
            texts += ["", write_table([[cell.strip() for cell in row] for row in part.cells()]), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(texts)).strip("\n")


def _lines(part: Part, width: int) -> list[str]:
    """The lines of a sentence; or of a table, with the columns that had no place named below."""
    if isinstance(part, str):
        return [each for line in part.split("\n") for each in _folded(line, width, "  ")]
    columns = [_Column(cells, not at) for at, cells in enumerate(zip(*part.cells(), strict=True))]
    kept, left_out = [*columns], list[str]()
    while len(kept) > 2 and 0 < width < _together(each.least for each in kept):
        spare = [each for head in part.spare for each in kept[:0:-1] if each.cells[0] == head]
        column = spare[0] if spare else kept[-2]
        kept.remove(column)
        left_out.append(column.cells[0])
    for _ in range(_together(each.full for each in kept) - width if width else 0):
        widest = max(kept, key=lambda each: (each.width > each.least) * each.width)
        widest.width -= widest.width > widest.least
    lines = []
    for row in zip(*(each.lines() for each in kept), strict=True):
        for number in range(max(map(len, row))):
            texts = [
                cell[number] if number < len(cell) else " " * each.width
                for each, cell in zip(kept, row, strict=True)
            ]
            lines.append("  ".join(texts).rstrip())
    if left_out:
        full = _together(each.full for each in columns)
        said = f"columns left out at this width: {'; '.join(left_out)}. COLUMNS={full} shows all"
        lines += _folded(said, width, "  ")
    return lines


def _together(widths: Iterable[int]) -> int:
    """The width of columns with two spaces between them."""
    return sum(width + 2 for width in widths) - 2


class _Column:
    """A column of a table, as wide as it is without a fold. Its heading can be folded, and cells of
    words; `least` is the width below which a number or a word would be broken."""

    def __init__(self, cells: Sequence[str], first: bool) -> None:
        self.cells, self._hang = cells, "  " if first else ""
        self.full = self.width = max(map(len, cells))
        head, *body = ([len(line) for line in _folded(cell, 1, self._hang)] for cell in cells)
        self._words = self.full > _FOLDED and any(map(_WORD.search, cells[1:]))
        if self._words:
            of_body = max(_FOLDED, *(max(lengths) for lengths in body))
        else:
            of_body = max(map(len, cells[1:]), default=0)
        self.least = min(self.full, max(*head, of_body))

    def lines(self) -> list[list[str]]:
        """The lines of each cell. The first column is flush left, and words that are folded."""
        left = self._hang or (self._words and self.width < self.full)
        align = str.ljust if left else str.rjust
        return [
            [align(line, self.width) for line in _folded(cell, self.width, self._hang)]
            for cell in self.cells
        ]


def _folded(text: str, width: int, hang: str) -> list[str]:
    """The lines of a text, those after the first further in by `hang`: folded between words, but
    not in '0.1 to 0.2', and at the hyphens of a name that is too long for a line; 0: not folded."""
    if len(text) <= width or not width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    longest = max(map(len, text.split()), default=0)
    lines = wrap(
        _TO.sub("\u00a0to\u00a0", text.lstrip()),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=longest > max(width, _NAME),
    )
    return [line.replace("\u00a0", " ") for line in lines]


def _csv(cells: _Cells) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().rstrip("\n")


def _markdown(cells: _Cells) -> str:
    head, *rows = ([_in_markdown(cell) for cell in row] for row in cells)
    rule = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _latex(cells: _Cells) -> str:
    head, *rows = (" & ".join(map(_in_latex, row)) + r" \\" for row in cells)
    columns = "l" + "r" * (len(cells[0]) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *rows, r"\hline"]
    return "\n".join([*lines, r"\end{tabular}"])


def _in_markdown(text: str) -> str:
    """Text in which no character has a meaning for Markdown, HTML or formulas."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|$~#])", r"\\\1", text)


_LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    # Signs of our own labels that pdflatex has no letters for.
    **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "√": r"$\surd$", "‖": r"$\|$", "·": r"$\cdot$"},
    **{"α": r"$\alpha$", "ε": r"$\varepsilon$", "λ": r"$\lambda$", "φ": r"$\varphi$"},
    **{"η": r"$\eta$", "≤": r"$\le$", "≥": r"$\ge$", "²": "$^2$", "ᵀ": r"$^\top$", "ₜ": "$_t$"},
    **{"–": "--", "…": r"\dots{}"},
}


# A hyphen before a number, or in the exponent of one: not that of a date, a range or a name.
_MINUS = re.compile(r"(?<![\w.])-(?=\.?\d|∞|inf\b)|(?<=\de)-(?=\d)")


def _in_latex(text: str) -> str:
    """Text in which no character has a meaning for LaTeX, and numbers have a minus. A cell that
    begins with [ is no argument of the row's end before it."""
    text = _MINUS.sub("−", text)
    text = "".join(_LATEX.get(character, character) for character in text)
    return f"{{{text}}}" if text.startswith(("[", "*")) else text


_WRITERS: dict[TableFormat, tuple[Callable[[_Cells], str], Callable[[str], str]]] = {
    "csv": (_csv, lambda text: f"# {text}" if text else ""),
    "markdown": (_markdown, lambda text: _in_markdown(text) + "\n" if text else ""),
    "latex": (_latex, lambda text: f"% {text}" if text else ""),
}
