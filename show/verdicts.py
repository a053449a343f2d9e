"""Verdicts on claims as tables and words.

document(verdict_parts([verdict]))
"""

import re
from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from looplab.conf.files import read_values
from looplab.evaluation.verdict import Line, Verdict, VerdictName

from .tables import Cells, Part, Table

_HEAD = ("claim", "statement", "published", "ours", "line", "seeds", "steps", "verdict")
_WORDS: dict[VerdictName, tuple[str, str]] = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "not settled": ("is not settled", "are not settled"),
    "not measured": ("is not measured", "are not measured"),
    "paper scale": ("wants the paper's scale", "want the paper's scale"),
}
# Of several claims of a statement the first of these that one has is the statement's.
_WEIGHTIEST: tuple[VerdictName, ...] = ("fails", "paper scale", "not measured", "not settled")


def verdict_parts(verdicts: Sequence[Verdict]) -> list[Part]:
    """A table with the columns of `_HEAD`, sentences shortened; the lines on statements that
    several of them judge; and each note once, with the numbers of its rows."""
    rows = []
    notes: dict[str, list[str]] = {}
    for number, verdict in enumerate(verdicts, start=1):
        published, ours, line, seeds, name = verdict_cells(verdict)
        published = shorten(published, 24, placeholder=" …")
        steps = "–" if verdict.mean is None else f"{verdict.steps:,}"
        if verdict.mean is not None and verdict.published_steps is not None:
            steps += f" of {verdict.published_steps:,}"
        sentence = f"{number} {shorten(verdict.sentence, 60, placeholder=' …')}"
        statement = verdict.statement or "–"
        rows.append([sentence, statement, published, ours, line, seeds, steps, name])
        if verdict.note:
            notes.setdefault(verdict.note, []).append(str(number))
    parts: list[Part] = [Table(_HEAD, rows, spare=("statement", "steps", "seeds", "published"))]
    parts += statement_lines(verdicts)
    parts += [f"{', '.join(numbers)}: {note}" for note, numbers in notes.items()]
    return parts


def verdict_cells(verdict: Verdict) -> list[str]:
    """The published number, ours with its interval, the line, seeds and the verdict."""
    seeds = "–" if verdict.mean is None else str(verdict.seeds)
    ours = estimate_text(verdict.mean, verdict.low, verdict.high)
    return [published_text(verdict), ours, line_text(verdict), seeds, verdict.verdict]


def published_text(verdict: Verdict) -> str:
    """'1.04, of whole losses': the published number and what it is of; a dash for none."""
    if verdict.published_of:
        return f"{verdict.published}, of {verdict.published_of}"
    return verdict.published or "–"


def estimate_text(mean: float | None, low: float | None, high: float | None) -> str:
    """'0.983 (0.979 to 0.986)', a dash where nothing was measured."""
    if mean is None:
        return "–"
    for digits in (3, 4, 5):  # as many as tell the ends apart
        # Three digits unless both ends then read the same.
        first, last = ("" if end is None else f"{end:.{digits}g}" for end in (low, high))
        if first != last:
            break
    return f"{mean:.{digits}g} ({first or '−∞'} to {last or '∞'})"


def line_text(verdict: Verdict) -> str:
    """'< 1.1': the side of the line on which the claim holds; '0.9 to 1.1' for a band."""
    text = " to ".join(f"{end:g}" for end in ends_of(verdict.line))
    return {"above": "> ", "below": "< ", "within": ""}[verdict.holds_if] + text


def ends_of(line: Line) -> Sequence[float]:
    """The number of a line, or both ends of a band."""
    return [line] if isinstance(line, int | float) else line


def count_text(names: Sequence[str]) -> str:
    """'82 claims: 46 hold, 15 fail, 21 are not settled', by their verdicts' names."""
    counts = Counter(names)
    words = []
    for name, (of_one, of_several) in _WORDS.items():
        if number := counts[name]:
            words.append(f"{number} {of_several if number > 1 else of_one}")
    judged = ", ".join(words) or "none judged"
    return f"{len(names)} claim{'s' if len(names) != 1 else ''}: {judged}"


def heading(source: str) -> str:
    """The paper of a claim's source, 'arXiv 2311.12424', or 'this suite'."""
    return re.split(r"[,:;(]| for | against ", source)[0].strip()


def statements(verdicts: Sequence[Verdict]) -> Cells:
    """Of each statement with claims among these verdicts its id, its verdict, their number and what
    it says. The number is '2', or '1 of 2' where it has others.

    It holds if all hold, fails if one fails.
    """
    by_statement: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        if verdict.statement:
            by_statement.setdefault(verdict.statement, {})[verdict.claim] = verdict
    known = read_values("statements")
    rows = []
    for identity, by_claim in by_statement.items():
        judged = [verdict.verdict for verdict in by_claim.values()]
        name = next((name for name in _WEIGHTIEST if name in judged), "holds")
        count = str(len(judged))
        others = set(known.get(identity, {}).get("claims", ())) - by_claim.keys()
        if others:
            count += f" of {len(judged) + len(others)}"
        says = next(iter(by_claim.values())).says
        rows.append([identity, name, count, says])
    return rows


def statement_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """'ICL-76 holds, by 2 claims: …' for each statement that several claims judge."""
    return [
        f"{identity} {name}, by {count} claims: {says}"
        for identity, name, count, says in statements(verdicts)
        if count != "1"
    ]
