"""What an experiment is: conf/experiment/NAME.yaml, read and checked; its trainings, which are
ordinary runs under the names that they have by hand; and where its result is kept. No torch
here.

experiment = load("fig03")
for member in members_of(experiment, "small"): train(member.config)
folder = folder_of("runs", "fig03", "small")        # runs/experiments/fig03-small
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml

from looplab.conf.build import build, config_to_mapping, flatten
from looplab.conf.checksum import key_of
from looplab.conf.command import as_word
from looplab.conf.compose import command_of
from looplab.conf.groups import choices, read_values
from looplab.conf.mistakes import ConfigError, check_choice, one_line
from looplab.conf.plugins import PREFIX, load_plugins
from looplab.conf.schema import Config
from looplab.conf.words import read_yaml

# Files of experiments/ that measure trained runs, also those that learned nothing; and the others.
OF_EVERY_RUN = ("residual_scaling", "fully_looped")
OF_RUNS = (
    *("iterates", "preconditioner", "diversity", "conditioning", "mixture", "plateau", "length"),
    *("halting", "language_test_loops", "language_iso_depth", "time_to_quality", *OF_EVERY_RUN),
)
MEASURES = ("evaluation", "probes", "tables", "iso_depth", *OF_RUNS)
PanelKind = Literal["by_loop", "by_examples", "by_value", "shifts"]
ALL, ALL_LANGUAGE = "all", "all_language"
SCALES = ("small", "medium", "paper")
# A folder's name.
_NAME = re.compile(rf"(?P<experiment>.+)-(?:{'|'.join(SCALES)})(?:-\d+-seeds?)?(?:-on-\w+-\w+)?")


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
    is measured and drawn, and the claims that it decides. `word` is what the command calls it."""

    name: str
    word: str
    title: str
    source: str
    scales: Mapping[str, Any]
    measure: str = "evaluation"
    claims: tuple[str, ...] = ()
    panels: tuple[PanelSpec, ...] = ()

    def at(self, scale: str) -> AtScale:
        """The settings at a scale; ConfigError where there are none."""
        if scale not in self.scales:
            known = ", ".join(self.scales)
            raise ConfigError("scale", f"cannot be {scale!r} for {self.name}, which has {known}")
        at_scale: AtScale = self.scales[scale]
        return at_scale

    def reads_text(self, scale: str) -> bool:
        """Whether its runs at a scale are language models."""
        return any(entry.get("task") == "language" for entry in self.at(scale).runs)

    def command(self, scale: str, seeds: int | None = None, text: str = "") -> str:
        """The command that makes it, with a number of seeds that is not its own, and a text."""
        own = f" seeds={seeds}" if seeds else ""
        own += f" {shlex.quote(f'text={text}')}" if text else ""
        return f"python run.py experiment={self.word} scale={scale}{own}"


def names() -> list[str]:
    """The names of all experiments."""
    return choices("experiment")


def load(name: str) -> Experiment:
    """The experiment of a name, or in a .yaml or .py file of the user's own; ConfigError for one
    that does not exist, and for a file that cannot be read as one."""
    try:
        if name.endswith((".yaml", ".py")):
            return _experiment(_own_name(name), name, dict(_own_values(name)))
        check_choice("experiment", name, names())
        return _experiment(name, name, dict(read_values(f"experiment/{name}")))
    except (TypeError, ValueError, yaml.YAMLError) as error:
        if isinstance(error, ConfigError) and error.key == "experiment":
            raise
        raise ConfigError("experiment", f"{name}: cannot be read: {one_line(error)}") from None


def selected(words: Sequence[str], scale: str) -> list[Experiment]:
    """The named experiments; for `all`, those on functions in context that have settings at the
    scale, and for `all_language` those on texts."""
    if tuple(words) in ((ALL,), (ALL_LANGUAGE,)):
        found = [each for each in map(load, names()) if scale in each.scales]
        found = [each for each in found if each.reads_text(scale) == (words[0] == ALL_LANGUAGE)]
        if not found:
            raise ConfigError("scale", f"cannot be {scale!r}: no experiment of {words[0]} has it")
        return found
    experiments = [load(word) for word in words]
    for experiment in experiments:
        experiment.at(scale)
    return experiments


def _own_name(path: str) -> str:
    """The name of an experiment in the user's own file, which the project has no experiment of."""
    name = Path(path).stem
    if name in names():
        raise ConfigError(
            "experiment", f"cannot be {path}: {name} comes with the project; rename it"
        )
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(
            "experiment", f"cannot be {path}: its name is letters, digits, _, - and ."
        )
    return name


def _own_values(path: str) -> Mapping[str, Any]:
    """The content of a .yaml file, or the EXPERIMENT of a Python file; what it registers, claims
    among them, can be named from here on."""
    if not Path(path).is_file():
        raise ConfigError("experiment", f"is no file: {path}")
    if path.endswith(".py"):
        load_plugins([path])
        module = sys.modules[f"{PREFIX}{Path(path).stem}"]
        own = {"measure": Path(path).stem} if hasattr(module, "measure") else {}
        return {**getattr(module, "EXPERIMENT", {}), **own}
    values = read_yaml(Path(path).read_text(encoding="utf-8"))
    if not isinstance(values, Mapping):
        raise ValueError("it holds no settings")
    return values


def _experiment(name: str, word: str, content: dict[str, Any]) -> Experiment:
    """The experiment that a file's content describes; raises ValueError for what it lacks."""
    scales = {scale: build(AtScale, content.pop(scale)) for scale in SCALES if scale in content}
    if not scales:
        raise ValueError(f"it has settings at none of {', '.join(SCALES)}")
    experiment = build(Experiment, {"name": name, "word": word, "scales": {}} | content)
    if not (word.endswith(".py") and experiment.measure == name):
        check_choice("measure", experiment.measure, MEASURES)
    for at_scale in scales.values():
        for entry in at_scale.runs:
            if "label" not in entry or "scale" in entry:
                raise ValueError("each of its runs has a label, and none a scale")
    return replace(experiment, scales=scales)


def folder_of(
    folder: str, experiment: str, scale: str, seeds: int | None = None, text: str = ""
) -> Path:
    """The folder of an experiment's result.json and pictures; one of its own for a number of seeds
    that is not the experiment's, and for a text."""
    own = f"-{seeds}-seed{'s' * (seeds > 1)}" if seeds else ""
    if text:
        place = Path(text).absolute()
        stem = re.sub(r"[^A-Za-z0-9]+", "_", place.stem)
        own += f"-on-{stem}-{key_of(str(place))[:4]}"
    return Path(folder) / "experiments" / f"{experiment}-{scale}{own}"


def experiment_of(folder: Path) -> str:
    """The experiment whose result a folder holds, by the folder's name."""
    match = _NAME.fullmatch(folder.name)
    return match["experiment"] if match else folder.name


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
