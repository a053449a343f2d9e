"""A search: what its trials share, what they vary, and the configuration of each. No torch here.

search = Search.of(["search=rate", "trials=8"]); search.config({"training.muon_rate": 0.02, …})
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reloop.conf.build import config_to_mapping, flatten
from reloop.conf.checksum import key_of
from reloop.conf.compose import command_of
from reloop.conf.mistakes import ConfigError
from reloop.conf.plugins import load_plugins
from reloop.conf.schema import Config

from .settings import SearchSettings, search_settings
from .space import Parameter, parameter, word_of

_NOT_OF_TRIALS = ("action", "again", "together", "run", "runs", "checkpoint")
_ERRORS = {"last": "error of the last query", "mean": "mean error over k"}


@dataclass(frozen=True)
class Search:
    """The settings of a search, the settings that its trials share by key, those that they vary,
    and the words that the user gave."""

    settings: SearchSettings
    given: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> Search:
        """The search of a command. Raises ConfigError for any mistake, the values at the ends of
        the space among them: each is tried with the first values of the other settings."""
        settings, given = search_settings(words)
        for key in _NOT_OF_TRIALS:
            if key in given:
                raise ConfigError(key, "has no meaning with search=")
        if "seed" in settings.words:
            raise ConfigError("words.seed", "has no meaning: seed= beside words is of all runs")
        found = tuple(parameter(key, values) for key, values in settings.space.items())
        for each in found:
            if each.key in given:
                raise ConfigError(each.key, "is in the space of the search, and has no value here")
            if each.key in ("seed", *_NOT_OF_TRIALS):
                raise ConfigError(f"space.{each.key}", "cannot be searched")
        search = cls(settings, given, found, tuple(words))
        first = {each.key: each.ends[0] for each in found}
        base = search.config(first)
        for each in found:
            for value in each.ends[1:]:
                search.config(first | {each.key: value})
        types = flatten(config_to_mapping(base))
        typed = tuple(
            each.of_type(types.get(each.key, types.get(_own(each.key)))) for each in found
        )
        return replace(search, parameters=typed)

    @property
    def name(self) -> str:
        """The name of its file."""
        return Path(self.settings.search).stem

    @property
    def error_name(self) -> str:
        """What is minimised."""
        return _ERRORS[self.settings.objective]

    @property
    def short_names(self) -> dict[str, str]:
        """The last part of each setting's key, where no other one ends in it."""
        last = {each.key: each.key.rpartition(".")[2] for each in self.parameters}
        taken = list(last.values())
        return {key: name if taken.count(name) == 1 else key for key, name in last.items()}

    @property
    def trials(self) -> int:
        """How many trials are made: as many as asked for, at most one for each point of the
        space."""
        return int(min(self.settings.trials, math.prod(each.size for each in self.parameters)))

    @cached_property
    def first(self) -> Config:
        """The configuration of the first values."""
        return self.config({each.key: each.ends[0] for each in self.parameters})

    @cached_property
    def folder(self) -> Path:
        """Its folder, search-<hash of what its trials are measured by>, beside those of its runs:
        the same for another number of trials, or another way to choose them."""
        from reloop.training.run_folder.run import run_folder  # imports torch

        settings = self.settings
        space = {
            each.key: [asdict(each), list(map(word_of, each.ends))] for each in self.parameters
        }
        parts = [
            run_folder(self.first).path.name, asdict(self.first.evaluation), space,
            settings.objective, settings.seeds, settings.seed,
        ]  # fmt: skip
        return Path(self.first.folder) / f"search-{key_of(parts, 8)}"

    def config(self, values: Mapping[str, Any], seed: int | None = None) -> Config:
        """The configuration of a run of a trial with these values; by default of its first seed.
        Raises ConfigError for settings that run.py would refuse."""
        plugins = self.given.get("plugins", [])
        load_plugins(plugins if isinstance(plugins, list) else [str(plugins)])
        return command_of(self._given(values, seed)).config

    def configs(self, values: Mapping[str, Any]) -> list[Config]:
        """The configurations of all runs of a trial, one for each seed."""
        first = self.settings.seed
        return [self.config(values, first + index) for index in range(self.settings.seeds)]

    def words_of(self, values: Mapping[str, Any], seed: int | None = None) -> list[str]:
        """The words of run.py that train a run of a trial."""
        return [f"{key}={word_of(value)}" for key, value in self._given(values, seed).items()]

    def drawn(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The settings' values for what Optuna drew."""
        return {each.key: each.value(params[each.key]) for each in self.parameters}

    def _given(self, values: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        seed = self.settings.seed if seed is None else seed
        return {**self.given, **values, "seed": seed}


def text_of(values: Mapping[str, Any]) -> str:
    """The values of a trial as words."""
    return " ".join(f"{key}={word_of(value)}" for key, value in values.items())


def check_space(search: Search) -> None:
    """Raises ConfigError for a setting of the space that training does not depend on: its trials
    would share a run. Imports torch."""
    from reloop.training.run_folder.run import run_folder

    first = {each.key: each.ends[0] for each in search.parameters}
    name = run_folder(search.first).path.name
    for each in search.parameters:
        if run_folder(search.config(first | {each.key: each.ends[1]})).path.name == name:
            raise ConfigError(
                f"space.{each.key}", "does not bear on training: nothing would differ"
            )


def _own(key: str) -> str:
    """A task's own setting as a configuration has it."""
    return key.replace("task.", "task.settings.", 1)
