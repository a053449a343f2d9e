"""The pictures of a grid as panels: errors over a varied setting, and by examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..claims.claim import Measured
from ..named.curves import file_name
from ..named.definition import PanelSpec
from ..named.panels import panels
from ..named.results import Panel
from .grid import SEED
from .results import Result, Setting, setting_name

_MOST = 24  # panels of one kind; the tables have all numbers
_WIDE = 20  # the largest value over the smallest from which on an axis is logarithmic


def grid_panels(results: Sequence[Result], varied: Sequence[str]) -> list[Panel]:
    """The panels of the finished runs. The varied setting with most values, if they are numbers, is
    an x axis, another one has a curve for each of its values, and each combination of the others a
    panel of its own; by examples, the first one has the curves."""
    finished = [result for result in results if result.errors is not None]
    keys = [key for key in varied if key != SEED]
    values = {key: list(dict.fromkeys(_value(result, key) for result in finished)) for key in keys}
    by_number = sorted(keys, key=lambda key: -len(values[key]))
    x = next((key for key in by_number if _are_numbers(values[key])), None)
    found: list[Panel] = []
    if x is not None:
        numbers = [float(value) for value in values[x]]
        log = min(numbers) > 0 and max(numbers) >= _WIDE * min(numbers)
        curve = next((key for key in by_number if key != x), None)
        spec = PanelSpec("by_value", x=x, log_x=log)
        found += _split(spec, finished, [key for key in keys if key not in (x, curve)], (x,))
    first = x or (by_number[0] if by_number else None)
    found += _split(PanelSpec("by_examples"), finished, [key for key in keys if key != first])
    return found


def _split(
    spec: PanelSpec,
    results: Sequence[Result],
    split: Sequence[str],
    without: Sequence[str] = (),
) -> list[Panel]:
    """The panels of each combination of the values of `split`; the curves are called by the other
    values, those of `without` left out."""
    parts: dict[Setting, list[Measured]] = {}
    for result in results:
        values = dict(result.member.setting)
        part = tuple((key, values[key]) for key in split)
        rest = [(key, value) for key, value in values.items() if key not in (*split, *without)]
        label = setting_name(tuple(rest)) if rest else result.measured.config.model.family
        parts.setdefault(part, []).append(replace(result.measured, label=label))
    found = []
    for part, runs in parts.items():
        for panel in panels([spec], runs):
            if part:
                panel["name"] += f"-{file_name(setting_name(part))}"
                panel["title"] += f", {setting_name(part)}"
            found.append(panel)
    return found[:_MOST]


def _value(result: Result, key: str) -> str:
    return dict(result.member.values)[key]


def _are_numbers(values: Sequence[str]) -> bool:
    try:
        return len([float(value) for value in values]) > 1
    except ValueError:
        return False
