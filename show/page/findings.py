"""What was found, in sentences that rules write from results: claims that hold, comparisons of a
grid's settings, claims that fail, each kind with the most informative first.

for sentence in findings(results, claims, settings): print(sentence["text"])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from looplab.conf.in_words import in_words
from looplab.show.verdicts import count_text, ends_of, estimate_text

_MOST, _LEAST = 6, 3  # sentences
_LEVEL = 0.1  # of p, by Holm: that of a 90 % interval
Part = dict[str, Any]


def findings(
    results: Sequence[Part], claims: Sequence[Part], settings: Sequence[Part]
) -> list[Part]:
    """At most six sentences, each its `text`, its `verdict` and `of`, the id of what it is about:
    claims that hold, comparisons and claims that fail, in turns, then the number of the others.
    Where there are not three of them, the errors of runs by their `settings`."""
    # A claim of several results is that of the most seeds.
    own = [*{each["claim"]: each for each in sorted(claims, key=itemgetter("seeds"))}.values()]
    compared = [comparison for each in results for comparison in each["comparisons"]]
    compared.sort(key=itemgetter("rank"))
    kinds = (_claims(own, "holds"), compared, _claims(own, "fails"))
    turns = [each for turn in zip_longest(*kinds) for each in turn if each][: _MOST - 1]
    chosen = [each for kind in kinds for each in kind if each in turns]
    more, rest = "more " * bool(chosen), []
    if left := [each for each in own if each["claim"] not in [one.get("claim") for one in chosen]]:
        rest.append(
            count_text([each["verdict"] for each in left]).replace("claim", f"{more}claim", 1)
        )
    if left := [comparison for comparison in compared if comparison not in chosen]:
        settled = sum(not comparison["verdict"] for comparison in left)
        rest.append(f"{len(left)} {more}comparisons: {settled} settled, {len(left) - settled} not")
    chosen += [{"text": f"{'; '.join(rest)}.", "verdict": "", "of": ""}] * bool(rest)
    for each in settings[: max(0, _LEAST - len(chosen))]:
        text = f"{each['title']}: error {each['error']}, {seeds_text(len(each['runs']))}."
        chosen.append({"text": text, "verdict": "", "of": each["runs"][0]["id"]})
    return chosen


def _claims(claims: Sequence[Part], verdict: str) -> list[Part]:
    """The claims of a verdict with their sentences: the clearest of every experiment, then the
    others. Those of several seeds are clearer, then those whose interval is the farther from their
    line, in intervals."""

    def rank(claim: Part) -> tuple[bool, float]:
        low, high = claim["low"], claim["high"]
        known = low is not None and high is not None and low < high
        distances = [abs(own - end) for end in ends_of(claim["line"]) for own in (low, high)]
        near = min(distances) / (high - low) if known else 0.0
        return claim["seeds"] < 2, -near

    found = []
    for claim in sorted((each for each in claims if each["verdict"] == verdict), key=rank):
        number = f"{claim['quantity']} is {claim['ours']}, which should be {claim['side']}, "
        number += f"{seeds_text(claim['seeds'])}."
        found.append({**claim, "text": f"{claim['sentence'].rstrip('.')}: {number}"})
    clearest = {claim["of"]: claim for claim in reversed(found)}
    return sorted(found, key=lambda claim: claim is not clearest[claim["of"]])


def seeds_text(*seeds: int) -> str:
    """'3 seeds', '2 and 3 seeds', '1 seed'."""
    return f"{' and '.join(map(str, dict.fromkeys(seeds)))} seed{'s' * (max(seeds) > 1)}"


def comparisons_of(grid: Part) -> list[Part]:
    """The comparisons of a grid's result, each with its sentence, those that are settled first:
    where the interval of the ratio leaves out 1 and p, by Holm, is below .1. They are the effects
    of settings, in a result from before there were any the tests."""
    kind, sentence = ("effects", _effect) if "effects" in grid else ("tests", _test)
    tasks = [in_words(*each.split("=")) for each in grid["shared"] if each.startswith("task=")]
    found = []
    for row in grid[kind]:
        p, low, high = row["p, Holm"], row["low"], row["high"]
        if None in (p, low, high):
            continue
        settled = p < _LEVEL and not low <= 1 <= high
        p_text = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
        ratio = estimate_text(row["ratio"], low, high)
        text, brackets, names = sentence(grid, row, ratio)
        where = ", ".join([*tasks, *brackets, f"{p_text} by Holm"])
        end = "" if settled else "; ".join(filter(None, [": not settled", row.get("note")]))
        found.append(
            {
                "text": f"{text.replace(' of with', ' with')} ({where}){end}.",
                "verdict": "" if settled else "not settled",
                "of": grid["id"],
                "rank": (not settled, p),
                "cells": [*names, ratio, p_text],
            }
        )
    return sorted(found, key=itemgetter("rank"))


def _effect(grid: Part, effect: Part, ratio: str) -> tuple[str, list[str], list[str]]:
    """The sentence of an effect, nothing more for its brackets, and the names of its cells."""
    value, against = (in_words(effect["setting"], effect[side]) for side in ("value", "against"))
    seeds = f"{seeds_text(effect['seeds'], effect['most_seeds'])} each"
    over = effect["over"]
    text = f"Over {over}, with {seeds}" if over else f"With {seeds}"
    text += f", the error at k = {effect['k']} of {value} is "
    text += f"{ratio.replace(' (', ' times (')} that of {against}"
    return text, [], [value, against, f"{over}, {seeds}" if over else seeds]


def _test(grid: Part, test: Part, ratio: str) -> tuple[str, list[str], list[str]]:
    """The sentence of a test, where it holds, and the names of its cells."""
    labels = [" ".join(f"{key}={row[key]}" for key in grid["varied"]) for row in grid["settings"]]
    rows = dict(zip(labels, grid["settings"], strict=True))
    first, second, key = rows[test["first"]], rows[test["second"]], test["differ in"]
    one, other = in_words(key, first[key]), in_words(key, second[key])
    rest = [in_words(each, first[each]) for each in grid["varied"] if each != key]
    where = [*rest, seeds_text(first["seeds"], second["seeds"])]
    text = f"The error at k = {first['k']} of {one} is {ratio} times that of {other}"
    return text, where, [one, other, ", ".join(where)]
