"""The settings of a search: a file in conf/search/ or of the user's own, and the words beside it.
No torch here.

settings, given = search_settings(["search=rate", "trials=8", "task=linear"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml

from reloop.conf.actions import SUBJECTS
from reloop.conf.build import build
from reloop.conf.compose import values_of
from reloop.conf.groups import GROUPS, choices, read_values
from reloop.conf.mistakes import ConfigError, check_choice, one_line
from reloop.conf.schema import Config
from reloop.conf.setting import check_settings, setting
from reloop.conf.words import check_words, merge, nested, read_word, read_yaml

_IN_FILE = ("words", "space")  # not on the command line


@dataclass(frozen=True)
class PruningSettings:
    """When a trial ends early, by its training loss beside that of others at the same step."""

    rungs: tuple[float, ...] = setting(
        (), "fractions of the steps at which trials are compared; none: all make all steps",
        above=0, below=1,
    )  # fmt: skip
    keep: float = setting(0.5, "the fraction of trials that goes on at each", above=0, below=1)
    after: int = setting(4, "trials at a rung from which on one may end there", at_least=2)


@dataclass(frozen=True)
class SearchSettings:
    """Which settings are tried, how often, and what makes one better."""

    search: str = setting("", "a name in conf/search/, or a .yaml file of your own")
    words: Mapping[str, Any] = setting({}, "in the file: settings of every trial")
    space: Mapping[str, Any] = setting(
        {}, "in the file: the settings that are tried, each {low, high, log, step} or {values}"
    )
    objective: Literal["last", "mean"] = setting(
        "last", "the error at b loops that is least for the best: of the last query, mean over k"
    )
    trials: int = setting(20, "of all processes together", at_least=1)
    seeds: int = setting(1, "runs of each trial, of whose errors the mean counts", at_least=1)
    sampler: Literal["tpe", "random"] = setting(
        "tpe",
        "how settings are chosen: by the trials so far (tree-structured Parzen), or at random",
    )
    seed: int = setting(0, "of the sampler, and of each trial's first run", at_least=0)
    jobs: int | None = setting(
        None, "processes at once; null: one a core, one on a GPU", at_least=1
    )
    pruning: PruningSettings = PruningSettings()

    def check(self) -> None:
        """Raises ConfigError for the first impossible setting; `space` is checked as it is read."""
        check_settings("", self)
        check_settings("pruning.", self.pruning)
        if not self.space:
            raise ConfigError("space", "is empty: it must name a setting to be tried")


def is_for_search(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return any(word.startswith("search=") for word in words)


def search_settings(words: Sequence[str]) -> tuple[SearchSettings, dict[str, Any]]:
    """The settings of a search, and those of its trials by key: the file's, over which those of the
    words go. Raises ConfigError for a mistake in the former, and for words that cannot be read."""
    check_words(words)
    own, others = dict[str, Any](), list[str]()
    for word in words:
        key = word.partition("=")[0]
        group = key.partition(".")[0]
        if group in _IN_FILE:
            raise ConfigError(key, "is for the file of a search, not for the command line")
        if group in SearchSettings.__dataclass_fields__:
            merge(own, nested(key, read_word(SearchSettings, word)))
        else:
            _check_own_name(key)
            others.append(word)
    content = _content(str(own["search"]))
    for part in (content, own):
        if part.get("pruning") in (False, None) and "pruning" in part:
            part["pruning"] = {"rungs": []}
    merge(content, own)
    settings = build(SearchSettings, content)
    settings.check()
    return settings, {**settings.words, **(values_of(others) if others else {})}


def names() -> list[str]:
    """The names of the searches that come with the project."""
    return choices("search")


def _check_own_name(key: str) -> None:
    """Raises ConfigError for a misspelt setting of a search; those of a run are checked as such."""
    of_runs = {*Config.__dataclass_fields__, *GROUPS, *SUBJECTS, "action", "again", "together"}
    near = get_close_matches(key, SearchSettings.__dataclass_fields__, n=1, cutoff=0.8)
    if near and key not in of_runs:
        raise ConfigError(key, f"is not a setting; did you mean {near[0]!r}?")


def _content(name: str) -> dict[str, Any]:
    """What the file of a search holds."""
    if not name.endswith(".yaml"):
        check_choice("search", name, names())
        return _copy(read_values(f"search/{name}"))
    if not Path(name).is_file():
        raise ConfigError("search", f"is no file: {name}")
    try:
        content = read_yaml(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError("search", f"cannot be {name}: {one_line(error)}") from None
    if not isinstance(content, Mapping):
        raise ConfigError("search", f"cannot be {name}: it holds no settings")
    if "search" in content:
        raise ConfigError("search", f"is the file's name, and cannot be in {name}")
    return _copy(content)


def _copy(content: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose groups can be changed."""
    return {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in content.items()
    }
