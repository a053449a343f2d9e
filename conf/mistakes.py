"""How a mistake is told: one line that names the key, what was expected, and the nearest right
spelling."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class ConfigError(ValueError):
    """A mistake in a setting: which key, and what was expected. One line, fit for a user."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}")
        self.key = key


class RunError(RuntimeError):
    """What cannot go on, and why: a run, a file that it needs. One line, fit for a user."""


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean …?' with the known name nearest to `name`, or the list of all of them."""
    options = sorted(known)
    close = get_close_matches(name, options, n=1, cutoff=0.6)
    close = close or [option for option in options if name and name in option]
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(options)}"


def check_choice(key: str, value: Any, options: Iterable[str]) -> None:
    """Raises ConfigError where `value` is none of the options."""
    if value not in options:
        raise ConfigError(key, f"cannot be {value!r}{nearest(str(value), options)}")


def at_least(key: str, value: float, least: int) -> None:
    """Raises ConfigError where `value` is below `least` or not finite."""
    if not (math.isfinite(value) and value >= least):
        raise ConfigError(key, f"must be at least {least}, got {value}")
