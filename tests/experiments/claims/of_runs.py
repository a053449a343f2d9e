"""Races of two recipes with a chosen quantity."""

from typing import Any

from looplab.experiments.claims import Evidence

from .synthetic import Made, evidence, seeds


def raced(key: str) -> Made:
    """A race of two recipes on one task, of which the ratio of the seconds, or the last one's error
    over the target, has the value."""

    def made(value: float) -> Evidence:
        ratio, error = (value, 0.5) if key == "ratio" else (3.0, value)
        rows = [race_row("paper", 10 * ratio, 0.1), race_row("fast", 10, 0.1 * error)]
        race = {"task": "linear", "target": 0.1, "rows": rows}
        return evidence(seeds(), time_to_quality={"races": [race]})

    return made


def race_row(label: str, seconds: float, last: float, high: float = 0.1) -> dict[str, Any]:
    """A recipe of a race: three seeds that are at the error `high` after about so many seconds, and
    end at about the error `last` after twice as many."""
    trainings = {
        str(seed): [
            {"step": 50 * part, "cpu_seconds": part * seconds * factor, "flops": 1.0 * part,
             "error": error, "high": end}
            for part, error, end in ((1, high, high), (2, last * factor, high))
        ]
        for seed, factor in enumerate((0.99, 1.0, 1.01))
    }  # fmt: skip
    return {"label": label, "trainings": trainings}
