"""Several evaluations of one model on the same prompts as one result.

result = together(last, others)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SAME = ("prompts", "seed", "resamples")  # settings that evaluations must agree in


def together(last: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last evaluation with what the `others` have beside it: further solvers, readings at other
    loops (`also_read`), shifted inputs, and the longest curve by loop. `evaluations` lists all.

    Others on other prompts or with other resamples are listed, and take no other part.
    """
    result: dict[str, Any] = {key: value for key, value in last.items() if key != "arrays_sha256"}
    result["by_examples"] = dict(result["by_examples"])
    result["labels"] = dict(result["labels"])
    result["shifts"] = {name: {**shift} for name, shift in result["shifts"].items()}
    newest_first = [each for each in reversed(others) if alike(each, last)]
    own = reading_name(last)
    for each in sorted(newest_first, key=lambda each: reading_name(each) != own):
        _add_solvers(result, each)
        _add_reading(result["by_examples"], result, each, each["by_examples"])
        for name, shift in each["shifts"].items():
            _add_shift(result, each, name, shift)
        if len(each["by_loop"]["loop"]) > len(result["by_loop"]["loop"]):
            result["by_loop"], result["halting"] = each["by_loop"], each["halting"]
        if "above_optimal" in each and "above_optimal" not in result:
            result["above_optimal"] = {**each["above_optimal"], "loops": reading_name(each)}
    result["evaluations"] = [
        {"file": f"evaluations/{each['key']}.json", "settings": each["settings"]}
        for each in (*others, last)
    ]
    return result


def reading_name(result: Mapping[str, Any]) -> str:
    """At which loops a result reads its model beside b: a number, or by which rule it halts."""
    asked = result["settings"]
    if result["loops"] != "auto":
        return str(result["loops"])
    rule = f"early exit on its {asked['halt_on']}, {asked['tolerance']:g}"
    return f"{rule}, by loop {asked['halt_by']}"


def alike(each: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Whether two evaluations of one model are of the same prompts, and their intervals alike."""
    return all(each["settings"][key] == last["settings"][key] for key in _SAME)


def _add_solvers(result: dict[str, Any], each: Mapping[str, Any]) -> None:
    for name, label in each["labels"].items():
        if name not in result["labels"]:
            result["labels"][name] = label
            result["by_examples"][name] = each["by_examples"][name]


def _add_reading(
    part: dict[str, Any],
    whole: Mapping[str, Any],
    each: Mapping[str, Any],
    found: Mapping[str, Any],
) -> None:
    """Another evaluation's model curve, where it was read at loops that are not there yet."""
    name = reading_name(each)
    own = part.get("loops", reading_name(whole))
    known = {own, str(whole["b"]), *part.get("also_read", {})}
    if name not in known:
        part["also_read"] = {**part.get("also_read", {}), name: found["model"]}


def _add_shift(
    result: dict[str, Any], each: Mapping[str, Any], name: str, shift: Mapping[str, Any]
) -> None:
    if name in result["shifts"]:
        _add_reading(result["shifts"][name], result, each, shift)
    else:
        own = reading_name(each)
        told = {} if own == reading_name(result) else {"loops": own}
        result["shifts"][name] = {**shift, **told}
