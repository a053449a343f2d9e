"""A setting as a field of a dataclass: default, meaning and range, stated once.

    steps: int = setting(500_000, "updates of the weights", at_least=0)

`check_settings` raises for values out of range, docs/reference.md prints the meaning.
"""

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from .mistakes import ConfigError, check_choice, check_count
from .plugins import added_names, of_a_plugin

_KEY = "setting"
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


@dataclass(frozen=True)
class Setting:
    """A setting's facts besides type and default: its `meaning` in a few words, and the range of
    its value, or of each of its values (None is in every range).

    An additional `check` is called with key and value. `needs` names another setting of its
    dataclass, without which it has no meaning: `optimizer=muon`."""

    meaning: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    check: Callable[[str, Any], None] | None = None
    needs: str = ""

    @property
    def range(self) -> str:
        """The range in words: '≥ 1', '> 0, < 1'; '' where there is none."""
        signs = ((self.at_least, "≥"), (self.above, ">"), (self.at_most, "≤"), (self.below, "<"))
        return ", ".join(f"{sign} {bound:,}" for bound, sign in signs if bound is not None)


def setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of a frozen dataclass with the `facts` of a `Setting`; a default dict is copied."""
    metadata = {_KEY: Setting(meaning, **facts)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


class Item(NamedTuple):
    """A setting with its type and default; MISSING where it must be given."""

    hint: Any
    default: Any
    info: Setting


def all_settings(cls: type[Any], prefix: str = "") -> dict[str, Item]:
    """The settings of a dataclass by key; those of its groups have dotted keys, and come last."""
    hints = hints_of(cls)  # type: ignore[arg-type]
    items: dict[str, Item] = {}
    groups: dict[str, Item] = {}
    for item in fields(cls):
        key = f"{prefix}{item.name}"
        hint = hints[item.name]
        make = item.default_factory
        if info := item.metadata.get(_KEY):
            items[key] = Item(hint, item.default if make is MISSING else make(), info)
        if is_dataclass(hint):
            groups |= all_settings(hint, f"{key}.")  # type: ignore[arg-type]
    return items | groups


def check_settings(prefix: str, settings: Any) -> None:
    """Check the settings of a dataclass. Raises ConfigError for the first one that is out of its
    range, none of its names, or set without what it needs."""
    hints = hints_of(type(settings))  # type: ignore[arg-type]
    for item in fields(settings):
        if (info := item.metadata.get(_KEY)) is None:  # a group of settings
            continue
        key = f"{prefix}{item.name}"
        value = getattr(settings, item.name)
        names = names_of(hints[item.name])
        names += added_names(key) if names else []
        for element in value if isinstance(value, tuple) else (value,):
            if isinstance(element, str) and names:
                check_choice(key, element, names, of_a_plugin)
            elif isinstance(element, int | float) and not isinstance(element, bool):
                _check_range(key, element, info)
        if info.check is not None and value is not None:
            info.check(key, value)
        needed, _, wanted = info.needs.partition("=")
        # At its default a setting needs nothing, since nobody has asked for it.
        if needed and value != item.default and (got := getattr(settings, needed)) != wanted:
            other = "model" if needed == "family" else f"{prefix}{needed}"
            raise ConfigError(key, f"has no meaning with {other}={got}")


@cache  # an experiment composes hundreds of configurations
def hints_of(cls: type) -> dict[str, Any]:
    """The types of a dataclass's settings, by name."""
    return get_type_hints(cls)


def names_of(hint: Any) -> list[Any]:
    """The names that a type allows, also within None, tuples and unions."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [name for argument in get_args(hint) for name in names_of(argument)]


def _check_range(key: str, value: float, info: Setting) -> None:
    if info.at_least is not None:
        check_count(key, value, int(info.at_least))
    if info.above is not None and not (math.isfinite(value) and value > info.above):
        raise ConfigError(key, f"must be above {info.above:g} and finite, got {value}")
    if info.at_most is not None and value > info.at_most:
        raise ConfigError(key, f"must be at most {info.at_most:g}, got {value}")
    if info.below is not None and value >= info.below:
        raise ConfigError(key, f"must be below {info.below:g}, got {value}")


def convert_scalar(kind: type, value: Any, key: str) -> Any:
    """`value` as bool, int, float or str; whole floats count as int (1e3), ints as float."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(key, "is larger than any number can be") from None
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    # True is an int to Python: a count of true is a mistake.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(key, f"must be {KINDS[kind]}, got {value!r}")
    return value
