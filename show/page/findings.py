"""What was found, in sentences that rules write from results: claims that hold, comparisons of a
grid's settings, claims that fail, each kind with the most informative first.

for finding in findings(claims, comparisons, runs): print(finding.text)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from looplab.conf.in_words import in_words
from looplab.evaluation.plain import Content
from looplab.show.verdicts import count_text, ends_of, estimate_text

from .content import Finding, KeptResult, Seeds, SettingsCompared, ShownClaim

_MOST = 6  # sentences
_LEAST = 3
_LEVEL = 0.1  # of p, by Holm: that of a 90 % interval


def findings(
    claims: Sequence[ShownClaim], comparisons: Sequence[SettingsCompared], runs: Sequence[Seeds]
) -> list[Finding]:
    """At most six sentences: claims that hold, comparisons and claims that fail, in turns, then the
    number of the others. Where there are not three of them, the errors of runs."""
    # A claim of several results is that of the most seeds.
    by_name = {claim.claim: claim for claim in sorted(claims, key=lambda claim: claim.seeds)}
    judged = list(by_name.values())
    holding = _claims(judged, "holds")
    compared = sorted(comparisons, key=_rank)
    failing = _claims(judged, "fails")
    # One of each kind, then the second of each, so that no kind crowds out another.
    turns = list[Finding]()
    for turn in zip_longest(holding, compared, failing):
        turns += [finding for finding in turn if finding is not None]
    turns = turns[: _MOST - 1]
    # Chosen in turns, but shown kind by kind.
    chosen = [finding for finding in chain(holding, compared, failing) if finding in turns]
    more = "more " if chosen else ""
    # What is left is counted in the last sentence.
    rest = []
    names = [finding.claim for finding in chosen]
    if left := [claim.verdict for claim in judged if claim.claim not in names]:
        rest.append(count_text(left).replace("claim", f"{more}claim", 1))
    if unsaid := [comparison for comparison in compared if comparison not in chosen]:
        settled = sum(not comparison.verdict for comparison in unsaid)
        counts = f"{settled} settled, {len(unsaid) - settled} not"
        rest.append(f"{len(unsaid)} {more}comparisons: {counts}")
    if rest:
        chosen.append(Finding(f"{'; '.join(rest)}."))
    for seeds in runs[: max(0, _LEAST - len(chosen))]:
        text = f"{seeds.title}: error {seeds.error}, {_seeds_text(len(seeds.runs))}."
        chosen.append(Finding(text, of=seeds.runs[0].id))
    return chosen


def _claims(claims: Sequence[ShownClaim], verdict: str) -> list[Finding]:
    """The claims of a verdict in sentences: the clearest of every result, then the others."""
    first = list[Finding]()
    others = list[Finding]()
    for claim in sorted(claims, key=_clearness):
        if claim.verdict != verdict:
            continue
        number = f"{claim.quantity} is {claim.ours}, which should be {claim.side}"
        text = f"{claim.sentence.rstrip('.')}: {number}, {_seeds_text(claim.seeds)}."
        # Its result has a clearer claim already.
        is_later = claim.of in [earlier.of for earlier in first]
        chosen = others if is_later else first
        chosen.append(Finding(text, verdict, claim.of, claim.claim))
    return first + others


def _clearness(claim: ShownClaim) -> tuple[bool, float]:
    """A claim of several seeds is clearer, then one whose interval is the farther from its line, in
    lengths of the interval."""
    low = claim.low
    high = claim.high
    far = 0.0
    if low is not None and high is not None and low < high:
        distances = [abs(end - line) for line in ends_of(claim.line) for end in (low, high)]
        # In its own lengths, so that claims on different quantities can be ordered.
        far = min(distances) / (high - low)
    return claim.seeds < 2, -far


def _seeds_text(*seeds: int) -> str:
    """'3 seeds', '2 and 3 seeds', '1 seed'."""
    numbers = " and ".join(map(str, dict.fromkeys(seeds)))
    return f"{numbers} seed{'s' if max(seeds) > 1 else ''}"


def comparisons_of(grid: KeptResult) -> list[SettingsCompared]:
    """The comparisons of a grid's result, those that are settled first: where the interval of the
    ratio leaves out 1 and p, by Holm, is below .1.

    They are the effects of settings, in a result from before there were any the tests.
    """
    tasks = [in_words(*word.split("=")) for word in grid.shared if word.startswith("task=")]
    comparisons = []
    for row in grid.tests if grid.effects is None else grid.effects:
        p = row["p, Holm"]
        low = row["low"]
        high = row["high"]
        if None in (p, low, high):
            continue
        ratio = estimate_text(row["ratio"], low, high)
        sentence = _test(grid, row, ratio) if grid.effects is None else _effect(row, ratio)
        p_text = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
        where = ", ".join(tasks + sentence.where + [f"{p_text} by Holm"])
        text = f"{sentence.text.replace(' of with', ' with')} ({where})"
        verdict = ""
        if p >= _LEVEL or low <= 1 <= high:
            verdict = "not settled"
            text += ": not settled"
            if row.get("note"):
                text += f"; {row['note']}"
        cells = [*sentence.cells, ratio, p_text]
        comparisons.append(SettingsCompared(f"{text}.", verdict, grid.id, p=p, cells=cells))
    return sorted(comparisons, key=_rank)


def _rank(comparison: SettingsCompared) -> tuple[bool, float]:
    return bool(comparison.verdict), comparison.p


class _Sentence(NamedTuple):
    """A sentence on two settings, where it holds, and the first cells of its row."""

    text: str
    where: list[str]
    cells: list[str]


def _effect(effect: Content, ratio: str) -> _Sentence:
    """The sentence of an effect: of a setting's value against another, over all other settings."""
    value = in_words(effect["setting"], effect["value"])
    against = in_words(effect["setting"], effect["against"])
    seeds = f"{_seeds_text(effect['seeds'], effect['most_seeds'])} each"
    text = f"With {seeds}"
    others = seeds
    if over := effect["over"]:
        text = f"Over {over}, with {seeds}"
        others = f"{over}, {seeds}"
    text += f", the error at k = {effect['k']} of {value} is "
    text += f"{ratio.replace(' (', ' times (')} that of {against}"
    return _Sentence(text, [], [value, against, others])


def _test(grid: KeptResult, test: Content, ratio: str) -> _Sentence:
    """The sentence of a test: of two combinations of settings that differ in one."""
    rows = dict[str, Content]()
    for row in grid.settings:
        rows[" ".join(f"{key}={row[key]}" for key in grid.varied)] = row
    first = rows[test["first"]]
    second = rows[test["second"]]
    key = test["differ in"]
    first_words = in_words(key, first[key])
    second_words = in_words(key, second[key])
    where = [in_words(name, first[name]) for name in grid.varied if name != key]
    where.append(_seeds_text(first["seeds"], second["seeds"]))
    text = f"The error at k = {first['k']} of {first_words} is {ratio} times that of {second_words}"
    return _Sentence(text, where, [first_words, second_words, ", ".join(where)])
