"""`curriculum.proportional=true`: a curriculum that shrinks or grows with training.steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .mistakes import ConfigError
from .setting import convert_scalar

PROPORTIONAL = "proportional"  # of `curriculum` on the command line; no setting of a run
_KEY = f"curriculum.{PROPORTIONAL}"


def stretch(mapping: dict[str, Any], configured: int, given: Sequence[str]) -> None:
    """Take `curriculum.proportional` out of the composed `mapping`; where it is true, make every
    interval as much shorter or longer as the run's steps are than the `configured` ones, which
    scale and task come with: whatever grows then ends at the same fraction of training.

    Intervals are rounded down, to no less than 1. Numbers that do not grow, and loops that are
    drawn, keep theirs. Raises ConfigError where an interval was given too.
    """
    curriculum, steps = mapping["curriculum"], mapping["training"]["steps"]
    if not convert_scalar(bool, curriculum.pop(PROPORTIONAL), _KEY):
        return
    for key in given:
        if key.startswith("curriculum.") and key.endswith(".intervals"):
            raise ConfigError(_KEY, f"cannot be true beside {key}=, which says how long itself")
    steps = convert_scalar(int, steps, "training.steps")
    for name, growth in curriculum.items():
        grows = growth["start"] is not None
        if name == "loops":
            looped = mapping["model"]["family"] == "looped"
            grows = looped and mapping["loops"]["sampling"] == "none"
        if grows:
            growth["intervals"] = [max(1, i * steps // configured) for i in growth["intervals"]]
