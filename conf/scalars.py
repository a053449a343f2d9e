"""Single values as what they must be: a whole number, a number, true or false, a name."""

from __future__ import annotations

from typing import Any

from .mistakes import ConfigError

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


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
