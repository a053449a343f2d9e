"""The prose of README, the documents and the modules is short: `python -m tests.prose FILE…`."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import HOME
from tests.prose import Block, Prose, docstring, markdown, modules, read, sentences_of


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
