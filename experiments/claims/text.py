"""Verdicts as a table: a row each, and the notes below it.

print(document(verdict_parts(result["verdicts"])))
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from reloop.evaluation.tables import Part, Table

from ..named.results import Verdict

HEAD = ("claim", "published", "ours", "line", "seeds", "steps", "verdict")
_SENTENCE = 60  # characters


def verdict_parts(verdicts: Sequence[Verdict], width: int = _SENTENCE) -> list[Part]:
    """The table, and each note once, with the rows that it is on."""
    if not verdicts:
        return []
    rows, notes = verdict_rows(verdicts, width), dict[str, list[int]]()
    for number, verdict in enumerate(verdicts, start=1):
        if verdict["note"]:
            notes.setdefault(verdict["note"], []).append(number)
    numbered = [[f"{at} {row[0]}", *row[1:]] for at, row in enumerate(rows, start=1)]
    return [
        Table(HEAD, numbered),
        *(f"{', '.join(map(str, at))}: {note}" for note, at in notes.items()),
    ]


def verdict_rows(verdicts: Sequence[Verdict], width: int = _SENTENCE) -> list[list[str]]:
    """The cells below HEAD: the sentence cut to `width`, the published number, ours with its 90 %
    interval, the line, seeds, steps of the published steps, the verdict."""
    return [
        [
            shorten(verdict["sentence"], width, placeholder=" …"),
            shorten(verdict["published"], 24, placeholder=" …") or "–",
            estimate_text(verdict),
            line_text(verdict),
            str(verdict["seeds"]) if verdict["mean"] is not None else "–",
            steps_text(verdict),
            verdict["verdict"],
        ]
        for verdict in verdicts
    ]


def estimate_text(verdict: Verdict) -> str:
    """'0.983 (0.979 to 0.986)', a dash where nothing was measured."""
    if verdict["mean"] is None:
        return "–"
    values = (verdict["low"], verdict["mean"], verdict["high"])
    for digits in (3, 4, 5):  # as many as tell the ends apart
        low, mean, high = ("" if value is None else f"{value:.{digits}g}" for value in values)
        if low != high:
            break
    return f"{mean} ({low or '−∞'} to {high or '∞'})"


def line_text(verdict: Verdict) -> str:
    """'< 1.1': the side of the line on which the claim holds."""
    return f"{'>' if verdict['holds_if'] == 'above' else '<'} {verdict['line']:g}"


def steps_text(verdict: Verdict) -> str:
    """'2,000 of 500,000', without the published steps if they are not known."""
    if verdict["mean"] is None:
        return "–"
    published = verdict["published_steps"]
    return f"{verdict['steps']:,}" + ("" if published is None else f" of {published:,}")
