"""The words of a small command, `key=value` each, as its checked settings. No torch here.

settings = settings_from_words(DynamicsSettings, ["run=runs/NAME", "loops=200"])
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from os.path import expanduser
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml

from .build import build
from .mistakes import ConfigError
from .setting import all_settings

_T = TypeVar("_T")


class Loader(yaml.SafeLoader):
    """Plain values; 1e-3 is a number although it has no point, a date is a text."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)
_LIST_ITEM = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]*?)\s*(?:,|$)""")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)


def settings_from_words(cls: type[_T], words: Sequence[str]) -> _T:
    """An instance of the dataclass `cls` with the values of the words, texts as they were typed;
    other fields take their default.

    Raises ConfigError, naming the key, for a word that is not of the form key=value or given twice,
    an unknown or missing key, and a value of the wrong type.
    """
    check_words(words)
    mapping: dict[str, Any] = {}
    for word in words:
        merge(mapping, nested(word.partition("=")[0], read_word(cls, word)))
    for name, value in mapping.items():
        if "" in (value if isinstance(value, list) else [value]):
            raise ConfigError(name, "must name something, got ''")
    return build(cls, mapping)


def read_word(cls: type[Any], word: str) -> Any:
    """The value of a word for a setting of the dataclass `cls`. Raises ConfigError for one that
    cannot be read."""
    key, _, text = word.partition("=")
    item = all_settings(cls).get(key)
    try:
        if item is not None and is_text(item.hint):
            return read_text(item.hint, text)
        if "${" in text:
            raise ValueError("no reference to another setting")
        return read_yaml(text)
    except (yaml.YAMLError, ValueError):
        raise ConfigError(repr(word), "cannot be read; quote lists: 'key=[1,2]'") from None


def run_py(*words: str) -> str:
    """A command of run.py as one can paste it into a shell."""
    return shlex.join(["python", "run.py", *words])


def is_text(hint: Any) -> bool:
    """Whether values of this type, or the items of its lists, may be any text."""
    if get_origin(hint) is Literal:
        return False
    return hint is str or any(is_text(part) for part in get_args(hint))


def is_list(hint: Any) -> bool:
    """Whether values of this type are lists, or may be."""
    return get_origin(hint) is tuple or any(is_list(part) for part in get_args(hint))


def read_text(hint: Any, text: str) -> Any:
    """The value of a type with texts: the text as typed, without quotes around it, its ~ expanded;
    a list's items between commas, in brackets or not; None and whole numbers where the type has
    them. Raises ValueError for a list whose bracket is not closed."""
    if type(None) in get_args(hint) and text == "null":
        return None
    if is_list(hint):
        return [_item(hint, each) for each in list_items(text)]
    return _item(hint, text)


def list_items(text: str) -> list[str]:
    """The items of `[a,"b, c"]`, or of `a,b`: as typed, with their quotes."""
    if text.startswith("[") and not text.endswith("]"):
        raise ValueError("the bracket is not closed")
    text = text[1:-1] if text.startswith("[") else text
    # The last match is the end of the text, or of what follows a last comma.
    return [match[1] for match in _LIST_ITEM.finditer(text)][:-1] if text.strip() else []


def unquoted(text: str) -> str:
    """A text as typed, without quotes around it; a ~ at its beginning is the home folder."""
    match = _QUOTED.fullmatch(text)
    return match[2] if match else expanduser(text)


def _item(hint: Any, text: str) -> int | str:
    scalar = get_args(hint)[0] if get_origin(hint) is tuple else hint
    is_number = int in get_args(scalar) and re.fullmatch(r"[-+]?\d+", text)
    return int(text) if is_number else unquoted(text)


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
    return yaml.load(text, Loader)


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
