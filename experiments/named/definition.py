"""What a named experiment is: conf/experiment/NAME.yaml, read and checked. No torch here.

experiment = load("fig03"); members = members_of(experiment, "small")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

from reloop.conf.build import build, config_to_mapping, flatten
from reloop.conf.command import as_word
from reloop.conf.compose import command_of
from reloop.conf.groups import choices, read_values
from reloop.conf.mistakes import ConfigError, check_choice
from reloop.conf.schema import Config

Measurement = Literal["evaluation", "probing", "openml", "stability", "iso_depth"]
PanelKind = Literal["by_loop", "by_examples", "by_value", "shifts"]
SCALES = ("small", "medium", "paper")
_PLACE = re.compile(r"\{([\w.]+)\}")


@dataclass(frozen=True)
class PanelSpec:
    """A picture: of errors by loop, by examples, by the values of the setting `x`, or on shifted
    inputs; one for each value of the setting `split`, if given. `of` says which error goes over
    `x`: the last query's, or the mean over all numbers of examples."""

    kind: PanelKind
    x: str = ""
    split: str = ""
    log_x: bool = False
    of: Literal["last", "mean"] = "last"


@dataclass(frozen=True)
class AtScale:
    """An experiment at one scale: the runs (words of run.py by key, a list making a grid, with the
    `label` of their curves), training seeds of each, settings of the evaluation (in place of the
    scale's own), and those of other measurements."""

    runs: tuple[Mapping[str, Any], ...] = ()
    seeds: int = 1
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A published figure or table, or a question of our own: what is trained at each scale, how it
    is measured and drawn, and the claims that it decides."""

    name: str
    title: str
    source: str
    measure: str
    claims: tuple[str, ...]
    panels: tuple[PanelSpec, ...]
    scales: Mapping[str, AtScale]

    def at(self, scale: str) -> AtScale:
        """The settings at a scale; ConfigError where there are none."""
        if scale not in self.scales:
            known = ", ".join(self.scales)
            raise ConfigError("scale", f"cannot be {scale!r} for {self.name}, which has {known}")
        return self.scales[scale]

    def command(self, scale: str) -> str:
        """The command that makes it."""
        return f"python run.py experiment={self.name} scale={scale}"


@dataclass(frozen=True)
class Member:
    """A training of an experiment: the label of its curve, the words that train it alone, and its
    configuration, with the evaluation that the experiment asks for."""

    label: str
    words: tuple[str, ...]
    config: Config


def names() -> list[str]:
    """The names of all experiments."""
    return choices("experiment")


def load(name: str) -> Experiment:
    """The experiment of a name; ConfigError for one that does not exist, and for a file that cannot
    be read as one."""
    check_choice("experiment", name, names())
    try:
        return _experiment(name, dict(read_values(f"experiment/{name}")))
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError("experiment", f"{name}: its file cannot be read: {error}") from None


def selected(words: Sequence[str], scale: str) -> list[Experiment]:
    """The named experiments; for `all`, all that have settings at the scale."""
    if list(words) == ["all"]:
        return [each for each in map(load, names()) if scale in each.scales]
    experiments = [load(word) for word in words]
    for experiment in experiments:
        experiment.at(scale)
    return experiments


def members_of(
    experiment: Experiment,
    scale: str,
    folder: str = Config.folder,
    seeds: int | None = None,
    device: str = "auto",
) -> list[Member]:
    """The trainings of an experiment at a scale, in run folders below `folder`, each with `seeds`
    seeds in place of its own number. ConfigError for settings that run.py would refuse."""
    at_scale = experiment.at(scale)
    members = []
    for entry in at_scale.runs:
        given = {key: value for key, value in entry.items() if key != "label"} | {"scale": scale}
        given.setdefault("seed", list(range(seeds or at_scale.seeds)))
        for values in _grid(given):
            config = command_of(values | _evaluation(at_scale, values)).config
            config = replace(config, folder=folder, device=device)
            words = tuple(f"{key}={as_word(_tuples(value))}" for key, value in values.items())
            members.append(Member(_label(str(entry["label"]), config), words, config))
    return members


def setting_of(config: Config, key: str) -> Any:
    """A setting's value, by its key on the command line; a family for `model`."""
    flat = flatten(config_to_mapping(config))
    short = {"task": "task.name", "model": "model.family"}.get(key, key)
    group, _, name = short.partition(".")
    for candidate in (short, f"{group}.settings.{name}"):
        if candidate in flat:
            return flat[candidate]
    raise ConfigError("experiment", f"names {key}, which is not a setting")


def _experiment(name: str, content: dict[str, Any]) -> Experiment:
    panels = tuple(build(PanelSpec, panel) for panel in content.pop("panels", []))
    scales = {scale: build(AtScale, content.pop(scale)) for scale in SCALES if scale in content}
    if not scales:
        raise ValueError("it has settings at no scale")
    return Experiment(
        name=name,
        title=content.pop("title"),
        source=content.pop("source"),
        measure=content.pop("measure", "evaluation"),
        claims=tuple(content.pop("claims", ())),
        panels=panels,
        scales=scales,
        **content,
    )


def _grid(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each combination of the listed values."""
    lists = [value if isinstance(value, list) else [value] for value in given.values()]
    return [dict(zip(given, values, strict=True)) for values in product(*lists)]


def _evaluation(at_scale: AtScale, values: Mapping[str, Any]) -> dict[str, Any]:
    """The words of the evaluation; without those about loops for a standard model, which has
    none."""
    absent = ("loops", "max_loops", "halt_by") if values.get("model") == "standard" else ()
    return {
        f"evaluation.{key}": value
        for key, value in at_scale.evaluation.items()
        if key not in absent
    }


def _label(template: str, config: Config) -> str:
    """The template with {key} replaced by the setting's value."""
    return _PLACE.sub(lambda match: str(setting_of(config, match[1])), template)


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
