"""Several evaluations of one model on the same prompts as one result.

result = merge_results(last, other_results)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SHARED_SETTINGS = ("prompts", "seed", "resamples")  # equal in comparable evaluations


def merge_results(
    last: Mapping[str, Any], other_results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The last evaluation with what the others add to it: further solvers, the model read at other
    loops (`also_read`), shifted inputs, and the longest curve by loop. `evaluations` lists all.

    Results on other prompts or with other resamples are only listed.
    """
    result: dict[str, Any] = {key: value for key, value in last.items() if key != "arrays_sha256"}
    result["by_examples"] = dict(result["by_examples"])
    result["labels"] = dict(result["labels"])
    result["shifts"] = {name: {**shift} for name, shift in result["shifts"].items()}
    newest_first = [other for other in reversed(other_results) if comparable(other, last)]
    last_name = reading_name(last)
    for other in sorted(newest_first, key=lambda other: reading_name(other) != last_name):
        _add_solvers(result, other)
        _add_reading(result["by_examples"], result, other, other["by_examples"])
        for name, shift in other["shifts"].items():
            _add_shift(result, other, name, shift)
        if len(other["by_loop"]["loop"]) > len(result["by_loop"]["loop"]):
            result["by_loop"], result["halting"] = other["by_loop"], other["halting"]
        if "above_optimal" in other and "above_optimal" not in result:
            result["above_optimal"] = {**other["above_optimal"], "loops": reading_name(other)}
    result["evaluations"] = [
        {"file": f"evaluations/{each['key']}.json", "settings": each["settings"]}
        for each in (*other_results, last)
    ]
    return result


def reading_name(result: Mapping[str, Any]) -> str:
    """The loops at which a result reads its model beside b: their number, or the halting rule."""
    settings = result["settings"]
    if result["loops"] != "auto":
        return str(result["loops"])
    rule = f"early exit on its {settings['halt_on']}, {settings['tolerance']:g}"
    return f"{rule}, by loop {settings['halt_by']}"


def comparable(other: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether two evaluations of one model have the same prompts and the same resamples."""
    return all(other["settings"][key] == last["settings"][key] for key in _SHARED_SETTINGS)


def _add_solvers(result: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, label in other["labels"].items():
        if name not in result["labels"]:
            result["labels"][name] = label
            result["by_examples"][name] = other["by_examples"][name]


def _add_reading(
    part: dict[str, Any],
    result: Mapping[str, Any],
    other: Mapping[str, Any],
    other_part: Mapping[str, Any],
) -> None:
    """Add another evaluation's model curve if `part` has none read at its loops."""
    name = reading_name(other)
    part_name = part.get("loops", reading_name(result))
    names = {part_name, str(result["b"]), *part.get("also_read", {})}
    if name not in names:
        part["also_read"] = {**part.get("also_read", {}), name: other_part["model"]}


def _add_shift(
    result: dict[str, Any], other: Mapping[str, Any], name: str, shift: Mapping[str, Any]
) -> None:
    if name in result["shifts"]:
        _add_reading(result["shifts"][name], result, other, shift)
    else:
        other_name = reading_name(other)
        loops = {} if other_name == reading_name(result) else {"loops": other_name}
        result["shifts"][name] = {**shift, **loops}
