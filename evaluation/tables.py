"""Tables and the sentences around them in the formats of `tables.format`.

document(["error, 64 prompts", Table(["k", "0", "5"], [["looped", "1.02", "0.13"]])], "markdown")
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from looplab.conf.schema import TableFormat


@dataclass(frozen=True)
class Table:
    """Rows of text below a header; rows shorter than the longest end in empty cells. The first
    column is flush left, the others right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def cells(self) -> list[list[str]]:
        """The header and the rows, all of one length, each cell one line."""
        width = max(map(len, (self.head, *self.rows)))
        return [
            [*(cell.replace("\n", " ") for cell in row), *[""] * (width - len(row))]
            for row in (self.head, *self.rows)
        ]


Part = str | Table
_Cells = list[list[str]]


def document(parts: Iterable[Part], form: TableFormat = "text") -> str:
    """Sentences and tables, each from a new line; an empty sentence is an empty line. Sentences are
    paragraphs in markdown, and comments in csv (#) and latex (%)."""
    write_table, write_text = _WRITERS[form]
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts += map(write_text, part.split("\n"))
        elif form == "text":
            texts.append(write_table(part.cells()))
        else:
            texts += ["", write_table([[cell.strip() for cell in row] for row in part.cells()]), ""]
    text = "\n".join(texts)
    return text if form == "text" else re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _text(cells: _Cells) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells)
    return "\n".join("  ".join(row).rstrip() for row in aligned)


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


def _in_latex(text: str) -> str:
    """Text in which no character has a meaning for LaTeX. A cell that begins with [ is no argument
    of the row's end before it."""
    text = "".join(_LATEX.get(character, character) for character in text)
    return f"{{{text}}}" if text.startswith(("[", "*")) else text


_WRITERS: dict[TableFormat, tuple[Callable[[_Cells], str], Callable[[str], str]]] = {
    "text": (_text, str),
    "csv": (_csv, lambda text: f"# {text}" if text else ""),
    "markdown": (_markdown, lambda text: _in_markdown(text) + "\n" if text else ""),
    "latex": (_latex, lambda text: f"% {text}" if text else ""),
}
