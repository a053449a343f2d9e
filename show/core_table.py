"""The table of a language model's CORE."""

from collections.abc import Mapping

from looplab.evaluation.bootstrap import Interval
from looplab.evaluation.core import CoreScore

from .tables import Table, document


def core_table(results: Mapping[str, CoreScore], mean: Interval) -> str:
    """A row for each task, and CORE."""
    head = ["task", "questions", "cut", "accuracy", "chance", "centred", "90 %"]
    rows = []
    for label, result in results.items():
        row = [label, str(result.questions), str(result.cut)]
        row += [str(round(result.accuracy, 4)), str(round(result.chance, 4))]
        row += _interval(result.centred)
        rows.append(row)
    core = ["CORE", "", "", "", ""]
    core += _interval(mean)
    rows.append(core)
    return document([Table(head, rows), "cut: texts longer than the model's positions"])


def _interval(interval: Interval) -> list[str]:
    return [f"{interval.mean:.3g}", f"{interval.low:.3g} to {interval.high:.3g}"]
