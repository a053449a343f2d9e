"""A setting as a field of a dataclass: default, meaning and range, stated once.

    steps: int = setting(500_000, "updates of the weights", at_least=0)

`check_settings` refuses what is out of range, docs/reference.md prints the meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .mistakes import ConfigError, check_choice, check_count
from .plugins import added_names

_KEY = "setting"
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


@dataclass(frozen=True)
class Setting:
    """What is known of a setting beside its type and default: its `meaning` in a few words, the
    range of its value, or of each of its values (None is in every range), and a `check` of its own,
    which is called with key and value."""

    meaning: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    check: Callable[[str, Any], None] | None = None

    @property
    def range(self) -> str:
        """The range in words: '≥ 1', '> 0, < 1'; '' where there is none."""
        signs = ((self.at_least, "≥"), (self.above, ">"), (self.at_most, "≤"), (self.below, "<"))
        return ", ".join(f"{sign} {bound:,}" for bound, sign in signs if bound is not None)


def setting(
    default: Any,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    check: Callable[[str, Any], None] | None = None,
) -> Any:
    """A field of a frozen dataclass with what `Setting` holds; a dict as default is copied."""
    known = Setting(meaning, at_least, above, at_most, below, check)
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata={_KEY: known})
    return field(default=default, metadata={_KEY: known})


def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """The settings of a dataclass by name, those that are groups of settings left out."""
    return {each.name: each.metadata[_KEY] for each in fields(cls) if _KEY in each.metadata}


def default_of(cls: type[Any], name: str) -> Any:
    """The default of one setting."""
    (found,) = (each for each in fields(cls) if each.name == name)
    return found.default if found.default_factory is MISSING else found.default_factory()


def check_settings(prefix: str, settings: Any) -> None:
    """Raises ConfigError for the first setting of a dataclass that is out of its range, or none of
    its names; combinations are not looked at."""
    hints = get_type_hints(type(settings))
    for name, known in settings_of(type(settings)).items():
        key, value = f"{prefix}{name}", getattr(settings, name)
        names = _names(hints[name])
        names += added_names(key) if names else []
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and names:
                check_choice(key, each, names)
            elif isinstance(each, int | float) and not isinstance(each, bool):
                _check_range(key, each, known)
        if known.check is not None and value is not None:
            known.check(key, value)


def _names(hint: Any) -> list[Any]:
    """The names that a type allows, also within None, tuples and unions."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [name for part in get_args(hint) for name in _names(part)]


def _check_range(key: str, value: float, known: Setting) -> None:
    if known.at_least is not None:
        check_count(key, value, int(known.at_least))
    if known.above is not None and not (math.isfinite(value) and value > known.above):
        raise ConfigError(key, f"must be above {known.above:g} and finite, got {value}")
    if known.at_most is not None and value > known.at_most:
        raise ConfigError(key, f"must be at most {known.at_most:g}, got {value}")
    if known.below is not None and value >= known.below:
        raise ConfigError(key, f"must be below {known.below:g}, got {value}")


def convert_scalar(kind: type, value: Any, key: str) -> Any:
    """`value` as bool, int, float or str; whole floats pass as int (1e3), ints as float."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(key, "is larger than any number can be") from None
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(key, f"must be {KINDS[kind]}, got {value!r}")
    return value
