"""The prose of README, the documents and the modules is short. Its figures are words, numbers,
digits a word, parentheses, long sentences and paragraphs.

python -m tests.test_prose README.md docs/guide/*.md training/*.py

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

import pytest

from tests.conftest import HOME

CODE = "\ufffc"  # stands for a piece of inline code
_ABBREVIATIONS = ("e.g.", "i.e.", "al.", "cf.", "vs.", "Fig.", "Figs.", "Eq.", "Sec.", "No.", "pp.")
_GENERATED = re.compile(r"<!-- (?:counted|statements) -->.*?<!-- to here -->", re.DOTALL)
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


@dataclass(frozen=True)
class Limits:
    """Of a file, or of the files of a room."""

    sentence: int = 30  # words
    paragraph: int = 60
    cell: int = 20
    # Seven READMEs of the field have .05 to .19 digits a word and 1.0 to 4.4 parentheses in 100.
    digits_a_word: float | None = None
    parentheses: float | None = None
    lines: int | None = None
    words: int | None = None
    numbers: int | None = None


README = Limits(digits_a_word=0.15, parentheses=4.0, lines=90, words=650, numbers=40)
GUIDE = Limits(digits_a_word=0.15, parentheses=4.0)
PAGE = Limits()
ROOM = Limits(digits_a_word=0.15, parentheses=4.0)  # the docstrings of a folder's modules

DOCS = HOME / "docs"
ARCHIVE = DOCS / "log"  # what was measured, by date: it stays as it was written
MADE = {DOCS / "reference.md"}  # of conf/schema.py: python -m looplab.reference
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if path.parent != ARCHIVE and path not in MADE]
LIMITS = {
    HOME / "README.md": README,
    HOME / "CHANGELOG.md": PAGE,
    HOME / "CONTRIBUTING.md": PAGE,
    **{path: GUIDE if path.parent.name == "guide" else PAGE for path in PAGES},
}
ROOMS = (
    *("conf", "tasks", "curricula", "models", "training", "evaluation", "probing"),
    *("openml_eval", "experiments", "benchmarks", "looplab", "run.py"),
)


def beyond(prose: Prose, limits: Limits) -> list[str]:
    """What is over its limit, a line each."""
    return [*figures_beyond(prose, limits), *pieces_beyond(prose, limits)]


def figures_beyond(prose: Prose, limits: Limits) -> list[str]:
    figures = {
        "lines": prose.lines,
        "words": prose.words,
        "numbers": prose.numbers,
        "digits_a_word": prose.digits_a_word,
        "parentheses": prose.parentheses,
    }
    found = []
    for name, figure in figures.items():
        limit = getattr(limits, name)
        if limit is not None and figure > limit:
            found.append(f"{name}: {figure:.4g}, at most {limit:g}")
    return found


def pieces_beyond(prose: Prose, limits: Limits) -> list[str]:
    pieces = {
        "sentence": (prose.sentences, limits.sentence),
        "paragraph": (prose.paragraphs, limits.paragraph),
        "cell": (prose.cells, limits.cell),
    }
    found = []
    for name, (longest, most) in pieces.items():
        found += [f"{name}, {piece}" for piece in longest if piece.words > most]
    return found


@pytest.mark.parametrize("path", LIMITS, ids=lambda path: str(path.relative_to(HOME)))
def test_a_page_is_within_its_limits(path: Path) -> None:
    found = beyond(read(path), LIMITS[path])
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_the_docstrings_of_a_room_are_within_their_limits(room: str) -> None:
    """Sentences and paragraphs module by module; the other figures of all modules together."""
    found = figures_beyond(read(HOME / room), ROOM)
    for path in modules(HOME / room):
        found += [f"{path.relative_to(HOME)}: {each}" for each in pieces_beyond(read(path), ROOM)]
    assert not found, "\n" + "\n".join(found)


def sentences(text: str) -> list[str]:
    return [" ".join(part.text.split()) for part in sentences_of(Block(1, text))]


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = (
        "See e.g. Fig. 3 of arXiv 2311.12424. It has .34 a word, of f(x), … and more.\nGarg et al."
    )
    assert sentences(text) == [
        "See e.g. Fig. 3 of arXiv 2311.12424.",
        "It has .34 a word, of f(x), … and more.",
        "Garg et al.",
    ]
    assert sentences("Is it? (Yes.) 5 are.") == ["Is it?", "(Yes.)", "5 are."]


PAGE_OF_ALL_KINDS = """# A title

Five `words of code` are [here](https://x.org/1234)
(so 2.5).

| cell | one two three |
|---|---|
| 17 | `a | b` |

1. An item
   of two lines
- Another ![picture 99](p.png) item.

    - a nested item

```
code 12345 here
```

<!-- counted -->194 claims hold<!-- to here -->
<!-- a comment 123 -->
"""


def test_of_a_page_the_prose_is_measured() -> None:
    prose = markdown(PAGE_OF_ALL_KINDS)
    assert [(piece.line, piece.words) for piece in prose.paragraphs] == [
        *((3, 6), (10, 5), (14, 3), (1, 2), (12, 2)),
    ]
    assert [piece.words for piece in prose.cells] == [3, 1, 1, 1]
    assert (prose.words, prose.numbers) == (24, 2)
    assert prose.digits_a_word == 2 / 18
    assert prose.parentheses == 100 / 18


def test_of_a_module_the_sentences_of_its_docstring_are_measured() -> None:
    source = '''"""A module. It does
much.

train(Config.of("task=linear"))[0]        # 12 words that are none

python run.py task=linear seed=71

    indented 5

The end (of it).
"""
x = 1
'''
    prose = docstring(source)
    assert [(piece.line, piece.words) for piece in prose.sentences] == [(10, 4), (1, 3), (1, 2)]
    assert prose.digits_a_word == 0


def test_what_is_beyond_a_limit_is_named() -> None:
    limits = Limits(sentence=3, paragraph=5, cell=1, numbers=0, parentheses=10)
    found = beyond(markdown("One two (three) 4. Five, six.\n\n| a b |\n"), limits)
    assert found == [
        "numbers: 1, at most 0",
        "parentheses: 16.67, at most 10",
        "sentence, line 1, 4 words: One two (three) 4.",
        "paragraph, line 1, 6 words: One two (three) 4. Five, six.",
        "cell, line 3, 2 words: a b",
    ]


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
