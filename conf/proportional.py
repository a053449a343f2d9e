"""`curriculum.proportional=true`: a curriculum that shrinks or grows with training.steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .mistakes import ConfigError
from .setting import convert_scalar

PROPORTIONAL = "proportional"  # a key of `curriculum` on the command line, no setting of a run
_KEY = f"curriculum.{PROPORTIONAL}"


def stretch(mapping: dict[str, Any], base_steps: int, keys: Sequence[str]) -> None:
    """Remove `curriculum.proportional` from the composed `mapping`; where it is true, multiply
    every interval by the run's steps over `base_steps`, those of scale and task: growth then ends
    at the same fraction of training.

    Intervals are rounded down, to at least 1. Numbers that do not grow, and sampled loops, keep
    theirs. Raises ConfigError where `keys`, the given ones, include an interval.
    """
    curriculum, steps = mapping["curriculum"], mapping["training"]["steps"]
    if not convert_scalar(bool, curriculum.pop(PROPORTIONAL), _KEY):
        return
    for key in keys:
        if key.startswith("curriculum.") and key.endswith(".intervals"):
            raise ConfigError(_KEY, f"cannot be true beside {key}=, which says how long itself")
    steps = convert_scalar(int, steps, "training.steps")
    for name, growth in curriculum.items():
        grows = growth["start"] is not None
        if name == "loops":
            looped = mapping["model"]["family"] == "looped"
            grows = looped and mapping["loops"]["sampling"] == "none"
        if grows:
            growth["intervals"] = [max(1, i * steps // base_steps) for i in growth["intervals"]]
