"""Several evaluations of one model on the same prompts as one result.

result = merge_results(last, other_results)
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from .results import Evaluation, ModelErrors, ShiftResult, by_solver


def merge_results(last: Evaluation, other_results: Sequence[Evaluation]) -> Evaluation:
    """The last evaluation with what the others add to it: further solvers, texts and questions, the
    model read at other loops (`also_read`), shifted inputs, and the longest curve by loop.
    `evaluations` lists all.

    Results on other prompts or with other resamples are only listed.
    """
    result = deepcopy(last)
    result.pop("arrays_sha256", None)
    newest_first = [other for other in reversed(other_results) if comparable(other, last)]
    last_name = reading_name(last)
    for other in sorted(newest_first, key=lambda other: reading_name(other) != last_name):
        _add_solvers(result, other)
        _add_texts(result, other)
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


def reading_name(result: Evaluation) -> str:
    """The loops at which a result reads its model beside b: their number, or the halting rule."""
    settings = result["settings"]
    if result["loops"] != "auto":
        return str(result["loops"])
    rule = f"early exit on its {settings['halt_on']}, {settings['tolerance']:g}"
    return f"{rule}, by loop {settings['halt_by']}"


def comparable(other: Evaluation, last: Evaluation) -> bool:
    """Whether two evaluations of one model have the same prompts and the same resamples."""
    first, second = other["settings"], last["settings"]
    return all(first[key] == second[key] for key in ("prompts", "seed", "resamples"))


def _add_solvers(result: Evaluation, other: Evaluation) -> None:
    for name, label in other["labels"].items():
        if name not in result["labels"]:
            result["labels"][name] = label
            by_solver(result["by_examples"])[name] = by_solver(other["by_examples"])[name]


def _add_texts(result: Evaluation, other: Evaluation) -> None:
    """Add the texts and the questions that the result has not, and solvers on the same text."""
    if "language" not in result or "language" not in other:
        return
    mine, others = result["language"], deepcopy(other["language"])
    for name, text in others["texts"].items():
        own, solvers = mine["texts"].setdefault(name, text), text.get("solvers")
        if solvers and own["tokens"] == text["tokens"]:
            own["solvers"] = solvers | own.get("solvers", {})
    for name, questions in others["questions"].items():
        mine["questions"].setdefault(name, questions)


def _add_reading(
    part: ModelErrors, result: Evaluation, other: Evaluation, other_part: ModelErrors
) -> None:
    """Add another evaluation's model curve if `part` has none read at its loops."""
    name, also_read = reading_name(other), part.get("also_read", {})
    if name not in {part.get("loops", reading_name(result)), str(result["b"]), *also_read}:
        part["also_read"] = {**also_read, name: other_part["model"]}


def _add_shift(result: Evaluation, other: Evaluation, name: str, shift: ShiftResult) -> None:
    if name in result["shifts"]:
        _add_reading(result["shifts"][name], result, other, shift)
        return
    result["shifts"][name] = shift.copy()
    if (other_name := reading_name(other)) != reading_name(result):
        result["shifts"][name]["loops"] = other_name
