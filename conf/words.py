"""The words of a small command, `key=value` each, as its checked settings. No torch here.

settings = settings_from_words(DynamicsSettings, ["run=runs/NAME", "loops=200"])
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from .build import build
from .mistakes import ConfigError

_T = TypeVar("_T")


def settings_from_words(cls: type[_T], words: Sequence[str]) -> _T:
    """An instance of the dataclass `cls` with the values of the words; other fields take their
    default.

    Raises ConfigError, naming the key, for a word that is not of the form key=value or given twice,
    an unknown or missing key, and a value of the wrong type.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    keys: set[str] = set()
    for word in words:
        if not re.match(r"[a-zA-Z_][\w.-]*=", word):
            raise ConfigError(repr(word), "is not of the form key=value")
        key = word.partition("=")[0]
        if key in keys:
            raise ConfigError(key, "is given twice")
        keys.add(key)
        if not word.partition("=")[2].strip():
            raise ConfigError(key, "has no value; key=null says that there is none")
        try:
            # One by one, so that the message can name the word.
            OmegaConf.to_container(OmegaConf.from_dotlist([word]), resolve=True)
        except (OmegaConfBaseException, YAMLError, ValueError):
            raise ConfigError(repr(word), "cannot be read; quote lists: 'key=[1,2]'") from None
    mapping = OmegaConf.to_container(OmegaConf.from_dotlist(list(words)), resolve=True)
    assert isinstance(mapping, dict)
    for name, value in mapping.items():
        if "" in (value if isinstance(value, list) else [value]):
            raise ConfigError(str(name), "must name something, got ''")
    return build(cls, {str(name): value for name, value in mapping.items()})
