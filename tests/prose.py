"""Figures of prose: words, numbers, digits a word, parentheses, long sentences and paragraphs.

python -m tests.prose README.md docs/guide/*.md training/*.py

Of a Markdown page the text is read, of a Python file the docstring of its module. Left out are
blocks of code, targets of links, pictures, comments and parts that a command makes. Inline code is
one word without digits. Cells of tables are measured by themselves: they count among the words and
numbers of a page, not in its digits a word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = "\ufffc"  # stands for a piece of inline code
_ABBREVIATIONS = ("e.g.", "i.e.", "al.", "cf.", "vs.", "Fig.", "Figs.", "Eq.", "Sec.", "No.", "pp.")
_GENERATED = re.compile(r"<!-- counted -->.*?<!-- to here -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<https?://[^<>]*>|\{[:.#][^{}]*\}")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_END_OF_SENTENCE = re.compile(r"[.!?][\"”’)\]*_]*\s+(?=[\"“(\[*_]*(\S))")
_SHELL = re.compile(r"(python|torchrun|make|looplab|pip|[A-Z_]+=\S+ python) ")


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, an item of a list or a cell of a table, without its marks."""

    line: int  # of its first line in the file
    text: str
    is_cell: bool = False


@dataclass(frozen=True)
class Piece:
    """A sentence, paragraph or cell: where it begins, how many words it has, and its text."""

    line: int
    words: int
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.replace(CODE, "`…`").split())
        return f"line {self.line}, {self.words} words: {text[:90]}"


@dataclass(frozen=True)
class Prose:
    """What there is to read in some files, and its figures."""

    lines: int
    blocks: tuple[Block, ...]

    @property
    def words(self) -> int:
        return sum(count_words(block.text) for block in self.blocks)

    @property
    def numbers(self) -> int:
        return sum(len(re.findall(r"\d[\d.,]*", block.text)) for block in self.blocks)

    @property
    def digits_a_word(self) -> float:
        """Without tables, which are for numbers."""
        digits = sum(len(re.findall(r"\d", text)) for text in self._running)
        return digits / max(1, sum(map(count_words, self._running)))

    @property
    def parentheses(self) -> float:
        """In 100 words, without tables; those of f(x) are none."""
        opened = sum(len(re.findall(r"(?<!\w)\(", text)) for text in self._running)
        return 100 * opened / max(1, sum(map(count_words, self._running)))

    @property
    def paragraphs(self) -> list[Piece]:
        """The longest first."""
        return _longest(block for block in self.blocks if not block.is_cell)

    @property
    def cells(self) -> list[Piece]:
        """The longest first."""
        return _longest(block for block in self.blocks if block.is_cell)

    @property
    def sentences(self) -> list[Piece]:
        """The longest first; those of cells are not among them."""
        running = [block for block in self.blocks if not block.is_cell]
        return _longest(sentence for block in running for sentence in sentences_of(block))

    @property
    def _running(self) -> list[str]:
        return [block.text for block in self.blocks if not block.is_cell]

    def __add__(self, other: Prose) -> Prose:
        return Prose(self.lines + other.lines, self.blocks + other.blocks)


def count_words(text: str) -> int:
    """Pieces between spaces with a letter or a digit, or inline code."""
    return sum(CODE in word or re.search(r"\w", word) is not None for word in text.split())


def sentences_of(block: Block) -> Iterator[Block]:
    """A block's sentences: they end at . ! or ? before a capital letter, a digit or code."""
    start = 0
    for end in _END_OF_SENTENCE.finditer(block.text):
        first = end[1]  # of the next sentence
        words_before = block.text[start : end.start() + 1].split()
        is_abbreviation = words_before[-1].lstrip("(") in _ABBREVIATIONS
        if is_abbreviation or not (first.isupper() or first.isdigit() or first == CODE):
            continue
        yield _part(block, start, end.end())
        start = end.end()
    yield _part(block, start, len(block.text))


def markdown(text: str) -> Prose:
    """The prose of a Markdown page."""
    lines = text.count("\n")
    for left_out in (_GENERATED, _COMMENT):
        text = left_out.sub(lambda found: "\n" * found[0].count("\n"), text)
    return Prose(lines, tuple(_blocks(text.splitlines())))


def docstring(source: str) -> Prose:
    """The prose of a module's docstring: its paragraphs without those that show a use."""
    text = ast.get_docstring(ast.parse(source), clean=False) or ""
    paragraphs = re.split(r"(\n\s*\n)", text)  # with what is between them
    kept = ["\n" * part.count("\n") if _shows_use(part) else part for part in paragraphs]
    return markdown("".join(kept))


def modules(path: Path) -> list[Path]:
    """The modules in a folder, or the one that the path names."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def read(path: Path) -> Prose:
    """The prose of a file, or of all modules in a folder."""
    if path.is_dir():
        return sum(map(read, modules(path)), Prose(0, ()))
    text = path.read_text(encoding="utf-8")
    return docstring(text) if path.suffix == ".py" else markdown(text)


def _longest(blocks: Iterator[Block]) -> list[Piece]:
    pieces = [Piece(block.line, count_words(block.text), block.text) for block in blocks]
    return sorted(pieces, key=lambda piece: -piece.words)


def _part(block: Block, start: int, end: int) -> Block:
    return Block(block.line + block.text.count("\n", 0, start), block.text[start:end])


def _shows_use(paragraph: str) -> bool:
    """Whether a paragraph of a docstring is code: indented, a shell's command, or Python."""
    if paragraph.strip("\n").startswith("    ") or _SHELL.match(paragraph):
        return True
    try:
        return bool(ast.parse(paragraph.replace("…", "...")).body)
    except SyntaxError:
        return False


def _blocks(lines: list[str]) -> Iterator[Block]:
    """Blocks of Markdown, line by line."""
    open_lines: list[str] = []  # of the paragraph or item that is not closed yet
    begun = 0
    fence = ""
    in_list = False
    for number, line in enumerate([*lines, ""], start=1):
        found = _FENCE.match(line)
        if fence or found:
            if found and not fence:
                fence = found[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            line = ""
        stripped = line.strip().removeprefix("> ")
        is_code = line.startswith("    ") and not open_lines and not in_list
        item = _ITEM.match(line)
        apart = not stripped or is_code or stripped.startswith(("#", "|", ":::", "!!!", "???"))
        if open_lines and (apart or item):
            yield Block(begun, _plain("\n".join(open_lines)))
            open_lines = []
        if item:
            in_list = True
        elif stripped and not line.startswith(" "):
            in_list = in_list and bool(open_lines)
        if stripped.startswith("|"):
            yield from _cells(number, stripped)
        elif stripped.startswith("#"):
            yield Block(number, _plain(stripped.lstrip("# ")))
        elif not apart:
            if not open_lines:
                begun = number
            open_lines.append(stripped if not item else line[item.end() :].strip())


def _cells(number: int, row: str) -> Iterator[Block]:
    if re.fullmatch(r"[|:\- ]+", row):
        return  # the line below a table's head
    for cell in re.split(r"(?<!\\)\|", _plain(row).strip("|")):
        # Ids of statements, as FLT-15, are looked up and not read.
        yield Block(number, re.sub(r"\b[A-Z]{3}-\d+(, )?", "", cell).strip(), is_cell=True)


def _plain(text: str) -> str:
    """Text without marks of Markdown; a piece of code is one word."""
    text = _CODE_SPAN.sub(lambda found: CODE + "\n" * found[0].count("\n"), text)
    text = _TAG.sub("", _PICTURE.sub("", text))
    return _LINK.sub(r"\1", text).replace("**", "")


def main(words: list[str]) -> int:
    """Print the figures of files, and their longest pieces; with --all every one over a limit."""
    paths = [Path(word) for word in words if word != "--all"]
    shown = None if "--all" in words else 3
    for path in paths:
        prose = read(path)
        print(
            f"{path}: {prose.lines} lines, {prose.words} words, {prose.numbers} numbers, "
            f"{prose.digits_a_word:.2f} digits a word, {prose.parentheses:.1f} parentheses in 100"
        )
        kinds = (
            ("sentence", prose.sentences, 30),
            ("paragraph", prose.paragraphs, 60),
            ("cell", prose.cells, 20),
        )
        for name, pieces, limit in kinds:
            for piece in pieces[:shown]:
                if shown or piece.words > limit:
                    print(f"  {name}, {piece}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
