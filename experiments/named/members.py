"""The trainings of an experiment: ordinary runs, under the names that they have by hand.

for member in members_of(load("fig03"), "small"): train(member.config)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.command import as_word
from looplab.conf.compose import command_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config

from .definition import AtScale, Experiment

_PLACE = re.compile(r"\{([\w.]+)\}")


@dataclass(frozen=True)
class Member:
    """A training of an experiment: the label of its curve, the words that train it alone, and its
    configuration, with the evaluation that the experiment asks for."""

    label: str
    words: tuple[str, ...]
    config: Config


def members_of(
    experiment: Experiment,
    scale: str,
    folder: str = Config.folder,
    seeds: int | None = None,
    device: str = "auto",
    text: str = "",
) -> list[Member]:
    """The trainings of an experiment at a scale, in run folders below `folder`, each with `seeds`
    seeds in place of its own number, language models on `text` where one is given. ConfigError for
    settings that run.py would refuse."""
    at_scale = experiment.at(scale)
    members = []
    for entry in at_scale.runs:
        given = {key: value for key, value in entry.items() if key != "label"} | {"scale": scale}
        given.setdefault("seed", list(range(seeds or at_scale.seeds)))
        if text and given.get("task") == "language":
            given["task.text"] = text
        lists = [value if isinstance(value, list) else [value] for value in given.values()]
        for combination in product(*lists):
            values = dict(zip(given, combination, strict=True))
            config = command_of(values | _evaluation(at_scale, values)).config
            config = replace(config, folder=folder, device=device)
            label = str(entry["label"])
            for key in _PLACE.findall(label):
                label = label.replace(f"{{{key}}}", str(setting_of(config, key)))
            members.append(Member(label, tuple(words_of(values)), config))
    return members


def described(member: Member, members: Sequence[Member]) -> str:
    """A member's label with those of its words that not all members have."""
    common = set.intersection(*(set(each.words) for each in members))
    words = [word for word in member.words if word not in common]
    return f"{member.label} ({' '.join(words)})" if words else member.label


def words_of(values: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command."""
    return [
        f"{key}={as_word(tuple(value) if isinstance(value, list) else value)}"
        for key, value in values.items()
    ]


def setting_of(config: Config, key: str) -> Any:
    """A setting's value, by its key on the command line; a family for `model`."""
    flat = flatten(config_to_mapping(config))
    short = {"task": "task.name", "model": "model.family"}.get(key, key)
    group, _, name = short.partition(".")
    for candidate in (short, f"{group}.settings.{name}"):
        if candidate in flat:
            return flat[candidate]
    raise ConfigError("experiment", f"names {key}, which is not a setting")


def _evaluation(at_scale: AtScale, values: Mapping[str, Any]) -> dict[str, Any]:
    """The words of the evaluation; without those about loops for a standard model, which has
    none."""
    absent = ("loops", "max_loops", "halt_by") if values.get("model") == "standard" else ()
    return {
        f"evaluation.{key}": value
        for key, value in at_scale.evaluation.items()
        if key not in absent
    }
