"""The words of a small command, `key=value` each, as its checked settings. No torch here.

settings = settings_from_words(DynamicsSettings, ["run=runs/NAME", "loops=200"])
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import yaml

from .build import build
from .mistakes import ConfigError

_T = TypeVar("_T")


class _Loader(yaml.SafeLoader):
    """Plain values; 1e-3 is a number although it has no point, a date is a text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


def settings_from_words(cls: type[_T], words: Sequence[str]) -> _T:
    """An instance of the dataclass `cls` with the values of the words; other fields take their
    default.

    Raises ConfigError, naming the key, for a word that is not of the form key=value or given twice,
    an unknown or missing key, and a value of the wrong type.
    """
    check_words(words)
    mapping: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        try:
            if "${" in text:
                raise ValueError("no reference to another setting")
            merge(mapping, nested(key, read_yaml(text)))
        except (yaml.YAMLError, ValueError):
            raise ConfigError(repr(word), "cannot be read; quote lists: 'key=[1,2]'") from None
    for name, value in mapping.items():
        if "" in (value if isinstance(value, list) else [value]):
            raise ConfigError(name, "must name something, got ''")
    return build(cls, mapping)


def check_words(words: Sequence[str], hint: str = "") -> None:
    """Raises ConfigError for a word that is not key=value, which `hint` helps with, and for a key
    that has no value or is given twice."""
    keys: set[str] = set()
    for word in words:
        if not re.match(r"[a-zA-Z_][\w.-]*=", word):
            raise ConfigError(repr(word), f"is not of the form key=value{hint}")
        key, _, value = word.partition("=")
        if key in keys:
            raise ConfigError(key, "is given twice")
        if not value.strip():
            raise ConfigError(key, "has no value; key=null says that there is none")
        keys.add(key)


def read_yaml(text: str) -> Any:
    """The value of a YAML text; raises yaml.YAMLError or ValueError."""
    return yaml.load(text, _Loader)


def nested(key: str, value: Any) -> Mapping[str, Any]:
    """`value` in a mapping for each part of the dotted key."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def merge(mapping: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Put nested `values` into a mapping, over those that are there."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            if not isinstance(mapping.get(key), dict):
                mapping[key] = {}
            merge(mapping[key], value)
        else:
            mapping[key] = value
