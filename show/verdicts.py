"""Verdicts on claims as tables and words.

document(verdict_parts([verdict]))
"""

import re
from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from looplab.conf.files import read_values
from looplab.evaluation.verdict import Line, Verdict, VerdictName

from .tables import Part, Table

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
    """A table (the shortened sentence, its statement, the published number, ours with its 90 %
    interval, the line, seeds, steps of the published steps, the verdict), the lines on statements
    that several of them judge, and each note once, with its rows."""
    rows, notes = [], dict[str, list[int]]()
    for number, verdict in enumerate(verdicts, start=1):
        published, *numbers, name = verdict_cells(verdict)
        steps = "–" if verdict.mean is None else f"{verdict.steps:,}"
        if verdict.mean is not None and verdict.published_steps is not None:
            steps += f" of {verdict.published_steps:,}"
        sentence = f"{number} {shorten(verdict.sentence, 60, placeholder=' …')}"
        identity = verdict.statement or "–"
        published = shorten(published, 24, placeholder=" …")
        rows.append([sentence, identity, published, *numbers, steps, name])
        if verdict.note:
            notes.setdefault(verdict.note, []).append(number)
    lines = [f"{', '.join(map(str, at))}: {note}" for note, at in notes.items()]
    table = Table(_HEAD, rows, spare=("statement", "steps", "seeds", "published"))
    return [table, *statement_lines(verdicts), *lines]


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
        first, middle, last = (
            "" if value is None else f"{value:.{digits}g}" for value in (low, mean, high)
        )
        if first != last:
            break
    return f"{middle} ({first or '−∞'} to {last or '∞'})"


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
    words = [f"{number} {_WORDS[name][number > 1]}" for name in _WORDS if (number := counts[name])]
    return f"{len(names)} claim{'s' * (len(names) != 1)}: {', '.join(words) or 'none judged'}"


def heading(source: str) -> str:
    """The paper of a claim's source, 'arXiv 2311.12424', or 'this suite'."""
    return re.split(r"[,:;(]| for | against ", source)[0].strip()


def statements(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Of each statement with claims among these verdicts its id, its verdict by these, their number
    ('2', '1 of 2' where it has others) and what it says. It holds if all hold, fails if one
    fails."""
    found: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        if identity := verdict.statement:
            found.setdefault(identity, {})[verdict.claim] = verdict
    known, rows = read_values("statements"), []
    for identity, by_claim in found.items():
        names = {*known.get(identity, {}).get("claims", ())}
        judged = [verdict.verdict for verdict in by_claim.values()]
        name = next((name for name in _WEIGHTIEST if name in judged), "holds")
        others = len(names - by_claim.keys())
        count = f"{len(judged)} of {len(judged) + others}" if others else str(len(judged))
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
