"""The numbers of docs/results.md, each read from a file that is kept. `filled` makes what stands
between a comment that names the number, and `<!-- to here -->`:

<!-- value: paper_sparse_linear error_by_examples model_at_b mean -->   of docs/figures: a curve's
                                                    mean over x, or its value with interval at an x
<!-- table: paper_sparse_linear error_by_examples 5 10 40 -->    its panel's curves at these x
<!-- claim: fig03_tied_grows -->                                 an estimate that `today` has
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from looplab.evaluation.verdict import Verdict
from looplab.show.panel import Curve, Panel
from looplab.show.verdicts import estimate_text

HOME = Path(__file__).parents[2]  # the project
PAGE = HOME / "docs" / "results.md"
_MADE = r"(<!-- (value|table|claim): (.*?) -->)(.*?)(<!-- to here -->)"
_ROUNDING = 1e-9  # an error below it is that of the arithmetic


def filled(text: str, claims: Mapping[str, Verdict]) -> str:
    """The text with its numbers made anew."""

    def made(found: re.Match[str]) -> str:
        start, kind, words, _, end = found.groups()
        if kind == "claim":
            claim = claims[words]
            estimate = estimate_text(claim.mean, claim.low, claim.high)
            estimate = re.sub(r"\b0\.", ".", estimate)
            return f"{start}{estimate}{end}"
        name, panel, *rest = words.split()
        make = _table if kind == "table" else _value
        return f"{start}{make(_panel(name, panel), rest)}{end}"

    return re.sub(_MADE, made, text, flags=re.S)


def _panel(name: str, panel: str) -> Panel:
    kept = json.loads((HOME / "docs" / "figures" / f"{name}.json").read_text(encoding="utf-8"))
    (values,) = [each for each in kept["panels"] if each["name"] == panel]
    return Panel.read(values)


def _value(panel: Panel, words: list[str]) -> str:
    name, at = words
    (curve,) = [each for each in panel.curves if each.name == name]
    if at == "mean":
        values = [value for value in curve.mean if value is not None]
        return _number(sum(values) / len(values))
    return _cell(panel, curve, float(at))


def _table(panel: Panel, words: list[str]) -> str:
    rows = [["examples" if "examples" in panel.x_label else panel.x_label]]
    rows[0] += [curve.label for curve in panel.curves]
    rows += [["---"] * len(rows[0])]
    rows += [[x, *(_cell(panel, curve, float(x)) for curve in panel.curves)] for x in words]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"


def _cell(panel: Panel, curve: Curve, x: float) -> str:
    """'.0405 (.0289 to .0551)'"""
    place = [*panel.x].index(x)
    mean = _number(curve.mean[place])
    if not curve.low or curve.low[place] is None or mean == "0":
        return mean
    return f"{mean} ({_number(curve.low[place])} to {_number(curve.high[place])})"


def _number(value: float | None) -> str:
    """Three digits, without the zero before the point."""
    assert value is not None
    return re.sub(r"^0\.", ".", f"{value:#.3g}" if abs(value) > _ROUNDING else "0")
