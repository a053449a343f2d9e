"""The table of a language model's CORE."""

from collections.abc import Mapping

from looplab.evaluation.bootstrap import Interval
from looplab.evaluation.core import Result

from .tables import Table, document


def core_table(results: Mapping[str, Result], mean: Interval) -> str:
    """A row for each task, and CORE."""
    head = ["task", "questions", "cut", "accuracy", "chance", "centred", "90 %"]
    rows = [
        [label, *(str(round(value, 4)) for value in each[:-1]), *_cells(each.centred)]
        for label, each in results.items()
    ]
    rows.append(["CORE", *[""] * 4, *_cells(mean)])
    return document([Table(head, rows), "cut: texts longer than the model's positions"])


def _cells(interval: Interval) -> list[str]:
    return [f"{interval.mean:.3g}", f"{interval.low:.3g} to {interval.high:.3g}"]
