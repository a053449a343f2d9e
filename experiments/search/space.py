"""A setting that a search varies: its values on a linear or a log scale, or by name. No torch here.

rate = parameter("training.muon_rate", {"low": 1e-3, "high": 0.1, "log": True})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reloop.conf.build import build
from reloop.conf.command import as_word
from reloop.conf.mistakes import ConfigError, nearest_key

_DIGITS = 6  # significant ones of a number between two ends: the words of a trial stay short


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`: evenly on a log scale with `log`, in steps of `step`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Parameter:
    """A setting with its values: those of `range`, whole ones where `whole`, or `choices`."""

    key: str
    range: Range | None = None
    choices: tuple[Any, ...] = ()
    whole: bool = False

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that are checked before a search: both ends, or all choices."""
        return (
            self.choices
            if self.range is None
            else tuple(map(_plain, (self.range.low, self.range.high)))
        )

    @property
    def size(self) -> float:
        """The number of its values, inf for numbers without steps."""
        if self.range is None:
            return len(self.choices)
        step = self.range.step or (1 if self.whole else 0)
        return self._steps(step) + 1 if step else math.inf

    @property
    def is_number(self) -> bool:
        """Whether all its values are numbers."""
        kinds = (int, float)
        return all(isinstance(each, kinds) and not isinstance(each, bool) for each in self.ends)

    @property
    def is_log(self) -> bool:
        """Whether its values lie on a log scale; choices do where they span a decade."""
        if self.range is not None:
            return self.range.log
        return self.is_number and min(self.ends) > 0 and max(self.ends) >= 10 * min(self.ends)

    def distribution(self) -> Any:
        """As Optuna takes it; choices by their words, since it stores no lists."""
        from optuna import distributions as kinds

        if self.range is None:
            return kinds.CategoricalDistribution([word_of(each) for each in self.choices])
        low, high, log, step = self.range.low, self.range.high, self.range.log, self.range.step
        if step:
            high = low + step * self._steps(step)  # Optuna warns of a last step that is shorter
        if self.whole:
            return kinds.IntDistribution(int(low), int(high), log, int(step or 1))
        return kinds.FloatDistribution(low, high, log, step)

    def value(self, drawn: Any) -> Any:
        """The setting's value for what Optuna drew."""
        if self.range is None:
            return next(each for each in self.choices if word_of(each) == drawn)
        if self.whole:
            return int(drawn)
        rounded = float(f"{drawn:.{_DIGITS}g}")
        return min(max(rounded, self.range.low), self.range.high)

    def scaled(self, value: Any) -> float:
        """Where a value lies between the ends, 0 to 1; choices in their order, or as numbers."""
        if not self.is_number:
            return self.choices.index(value) / max(len(self.choices) - 1, 1)
        place = math.log if self.is_log else float
        low, high = place(min(self.ends)), place(max(self.ends))
        return (place(value) - low) / (high - low) if high > low else 0.0

    def of_type(self, value: Any) -> Parameter:
        """Itself as a setting whose checked value is `value`. Raises ConfigError for a range of a
        setting that is no number, and for a step of a whole number that is none."""
        if self.range is None:
            return self
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"space.{self.key}", "is no number: it has values=[…], not low, high")
        whole, step = isinstance(value, int), self.range.step
        if whole and step is not None and not float(step).is_integer():
            raise ConfigError(f"space.{self.key}.step", f"must be a whole number, got {step}")
        return replace(self, whole=whole)

    def _steps(self, step: float) -> int:
        assert self.range is not None
        return int((self.range.high - self.range.low) / step + 1e-9)


def parameter(key: str, values: Any) -> Parameter:
    """A setting with the values that a file gives it. Raises ConfigError for impossible ones."""
    name = f"space.{key}"
    if not isinstance(values, Mapping):
        raise ConfigError(name, f"must have low and high, or values=[…], got {values!r}")
    if "values" not in values:
        return Parameter(key, _range(name, build(Range, values, f"{name}.")))
    for other in values:
        if other in Range.__dataclass_fields__:
            raise ConfigError(f"{name}.{other}", "has no meaning beside values")
        if other != "values":
            raise ConfigError(
                f"{name}.{other}", f"is not a setting{nearest_key(other, ['values'])}"
            )
    choices = values["values"]
    if not isinstance(choices, list) or len(choices) < 2:
        raise ConfigError(f"{name}.values", f"must be a list of at least two, got {choices!r}")
    words = [word_of(choice) for choice in choices]
    for word in words:
        if words.count(word) > 1:
            raise ConfigError(f"{name}.values", f"holds {word} twice")
    return Parameter(key, choices=tuple(choices))


def _range(name: str, found: Range) -> Range:
    for key, value in (("low", found.low), ("high", found.high), ("step", found.step)):
        if value is not None and not math.isfinite(value):
            raise ConfigError(f"{name}.{key}", f"must be finite, got {value}")
    if found.low >= found.high:
        raise ConfigError(f"{name}.low", f"is {found.low:g}, not below high, {found.high:g}")
    if found.log and found.low <= 0:
        raise ConfigError(f"{name}.low", f"must be above 0 with log, got {found.low:g}")
    if found.step is not None:
        if found.log:
            raise ConfigError(f"{name}.step", "cannot stand beside log")
        if not 0 < found.step <= found.high - found.low:
            raise ConfigError(f"{name}.step", f"must lie within the range, got {found.step:g}")
    return found


def _plain(number: float) -> float:
    """A whole number as int, which settings of either type take."""
    return int(number) if number.is_integer() else number


def word_of(value: Any) -> str:
    """A value as the command line reads it."""
    return as_word(tuple(value) if isinstance(value, list) else value)
