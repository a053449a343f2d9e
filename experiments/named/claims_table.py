"""All claims that several experiments judged, each once, by paper.

print(count_text(verdicts))                     # 82 claims: 46 hold, 15 fail, 21 are not settled
document(claims_parts(results), "markdown")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reloop.evaluation.tables import Part, Table

from ..claims.text import estimate_text, line_text
from .results import ExperimentResult, Verdict, VerdictName

_HEAD = ("experiment", "claim", "quantity", "published", "ours (90 %)", "line", "seeds", "verdict")
_WORDS: dict[VerdictName, tuple[str, str]] = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "not settled": ("is not settled", "are not settled"),
    "not measured": ("is not measured", "are not measured"),
}


def claims_parts(results: Sequence[ExperimentResult]) -> list[Part]:
    """The number of claims by verdict, for each paper too, and a table for each paper; a claim of
    several experiments stands in the first that measured it."""
    chosen: dict[str, tuple[str, str, Verdict]] = {}
    for result in results:
        for verdict in result["verdicts"]:
            earlier = chosen.get(verdict["claim"])
            if earlier is None or (earlier[2]["mean"] is None and verdict["mean"] is not None):
                found = (_paper(result["source"]), result["experiment"], verdict)
                chosen[verdict["claim"]] = found
    papers: dict[str, list[tuple[str, Verdict]]] = {}
    for paper, experiment, verdict in chosen.values():
        papers.setdefault(paper, []).append((experiment, verdict))
    parts: list[Part] = [count_text([verdict for _, _, verdict in chosen.values()])]
    for paper, rows in papers.items():
        parts += ["", f"{paper}: {count_text([verdict for _, verdict in rows])}"]
        parts.append(Table(_HEAD, [_row(*row) for row in rows]))
    return parts


def count_text(verdicts: Sequence[Verdict]) -> str:
    """'82 claims: 46 hold, 15 fail, 21 are not settled'."""
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    words = [f"{number} {_WORDS[name][number > 1]}" for name in _WORDS if (number := counts[name])]
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {', '.join(words) or 'none judged'}"


def _paper(source: str) -> str:
    """A source without its figure."""
    return source.partition(", Figure")[0].partition(", Table")[0]


def _row(experiment: str, verdict: Verdict) -> list[str]:
    return [
        experiment,
        verdict["sentence"],
        verdict["quantity"],
        verdict["published"] or "–",
        estimate_text(verdict),
        line_text(verdict),
        str(verdict["seeds"]) if verdict["mean"] is not None else "–",
        verdict["verdict"],
    ]
