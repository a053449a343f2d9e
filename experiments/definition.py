"""An experiment is a file: conf/experiment/NAME.yaml, read and checked; its trainings, which are
ordinary runs under the names that they have by hand. No torch here.

experiment = load("fig03")
for member in members_of(experiment, "small"): train(member.config)
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from looplab.conf.build import build, setting_of
from looplab.conf.command import as_word
from looplab.conf.compose import command_of
from looplab.conf.files import choices, read_values, read_yaml
from looplab.conf.in_words import in_words
from looplab.conf.mistakes import ConfigError, check_choice, one_line
from looplab.conf.plugins import PREFIX, load_plugins
from looplab.conf.schema import Config
from looplab.show.panel_spec import PanelSpec

EVALUATION = "evaluation"  # the measure of experiments that need no other
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class AtScale:
    """An experiment at one scale: the runs (words of run.py by key, a list making a grid, with the
    `label` of their curves; a `budget` of FLOPs, with its `budget_tokens`, stands for what
    flops.py makes of it), training seeds of each, settings of the evaluation (in place
    of the scale's own), and those of other measurements."""

    runs: tuple[Mapping[str, Any], ...] = ()
    seeds: int = 1
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A published figure or table, or a question of our own: what is trained at each scale, how it
    is measured and drawn, and the claims that it decides, as its file has them (`claims_of` reads
    them). `word` is what the command calls it.

    `measure` names a file with a function of this name; the evaluation of each run alone needs
    none. `estimators` names the file whose functions the claims are estimated by, if it is another
    one. `published_steps` and `published_size` are those of all its claims, but for a claim that
    has its own.
    """

    name: str
    word: str
    title: str
    source: str
    published_steps: int | None = None
    published_size: str = ""
    measure: str = EVALUATION
    estimators: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    panels: tuple[PanelSpec, ...] = ()
    small: AtScale | None = None
    medium: AtScale | None = None
    paper: AtScale | None = None

    @property
    def is_users(self) -> bool:
        """Says whether it is a file of the user's own."""
        return self.word.endswith((".yaml", ".py"))

    @property
    def scales(self) -> dict[str, AtScale]:
        """The settings at each scale that it has."""
        all_ = {"small": self.small, "medium": self.medium, "paper": self.paper}
        return {scale: at_scale for scale, at_scale in all_.items() if at_scale}

    def at(self, scale: str) -> AtScale:
        """The settings at a scale; ConfigError where there are none."""
        if scale not in self.scales:
            known = ", ".join(self.scales)
            raise ConfigError("scale", f"cannot be {scale!r} for {self.name}, which has {known}")
        return self.scales[scale]

    def reads_text(self, scale: str) -> bool:
        """Says whether its runs at a scale are language models."""
        return any(entry.get("task") == "language" for entry in self.at(scale).runs)


def names() -> list[str]:
    """The names of all experiments."""
    return choices("experiment")


@lru_cache
def measures() -> list[str]:
    """The files of this folder that have a function `measure`, or `answer` in its place, found
    without importing them."""
    doors = ("\ndef measure(", "\ndef answer(")
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(_FOLDER.glob("*.py"))}
    return [name for name, text in texts.items() if any(door in text for door in doors)]


def module_of(name: str) -> ModuleType:
    """The file of this folder of that name, or the user's that is loaded; ConfigError for
    neither."""
    if _is_ours(name):
        return import_module(f"{__package__}.{name}")
    own = sys.modules.get(f"{PREFIX}{name}")
    if own is None:
        raise ConfigError("estimators", f"cannot be {name!r}: experiments/ has no {name}.py")
    return own


def _is_ours(name: str) -> bool:
    return (_FOLDER / f"{name}.py").is_file()


def load(name: str) -> Experiment:
    """The experiment of a name, or in a .yaml or .py file of the user's own; ConfigError for one
    that does not exist, and for a file that cannot be read as one."""
    try:
        if name.endswith((".yaml", ".py")):
            content = _own_values(name)
        else:
            check_choice("experiment", name, names())
            content = read_values(f"experiment/{name}")
        experiment = build(Experiment, {"name": Path(name).stem, "word": name, **content})
        _check_measure(experiment.measure)
        for entry in (run for at_scale in experiment.scales.values() for run in at_scale.runs):
            if "label" not in entry or "scale" in entry:
                raise ValueError("each of its runs has a label, and none a scale")
        return experiment
    except (TypeError, ValueError, yaml.YAMLError) as error:
        if isinstance(error, ConfigError) and error.key == "experiment":
            raise
        raise ConfigError("experiment", f"{name}: cannot be read: {one_line(error)}") from None


def _check_measure(name: str) -> None:
    """Raises ConfigError for a measure that is no file, or a file without `measure`."""
    own = sys.modules.get(f"{PREFIX}{name}")
    if own is None or _is_ours(name):
        check_choice("measure", name, [EVALUATION, *measures()])
    elif not hasattr(own, "measure"):
        problem = f"cannot be {name!r}: {own.__file__} has no measure(runs, settings)"
        raise ConfigError("measure", problem)


def _own_values(path: str) -> Mapping[str, Any]:
    """The content of a .yaml file, or the EXPERIMENT of a Python file; the files beside it that it
    names are loaded. ConfigError for a name that the project has."""
    file = Path(path)
    if file.stem in names() or (file.suffix == ".py" and _is_ours(file.stem)):
        problem = f"cannot be {path}: {file.stem} comes with the project; rename it"
        raise ConfigError("experiment", problem)
    if not file.is_file():
        raise ConfigError("experiment", f"is no file: {path}")
    content: dict[str, Any] = {}
    if file.suffix == ".py":
        load_plugins([path])
        module = sys.modules[f"{PREFIX}{file.stem}"]
        content["estimators"] = file.stem
        content |= getattr(module, "EXPERIMENT", {})
        if hasattr(module, "measure"):
            content["measure"] = file.stem
    else:
        content |= read_yaml(file.read_text(encoding="utf-8"))
    for key in ("measure", "estimators"):
        beside = file.with_name(f"{content.get(key)}.py")
        if beside != file and beside.is_file():
            load_plugins([str(beside)])
    if isinstance(content.get("claims"), list):
        problem = (
            "must be a mapping: the name of a claim, then its text or another experiment's name"
        )
        raise ConfigError("claims", problem)
    return content


@dataclass(frozen=True)
class Member:
    """A training of an experiment: the label of its curve, the words that train it alone, and its
    configuration, with the evaluation that the experiment asks for."""

    label: str
    words: tuple[str, ...]
    config: Config

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.config.task.name}, {self.label}, seed {self.config.seed}"


def members_of(
    experiment: Experiment,
    scale: str,
    folder: str = Config.folder,
    seeds: int | None = None,
    device: str = "auto",
    text: str = "",
    first_seed: int = 0,
) -> list[Member]:
    """The trainings of an experiment at a scale, in run folders below `folder`, each with `seeds`
    seeds in place of its own number, counted from `first_seed`, language models on `text` where one
    is given. ConfigError for settings that run.py would refuse."""
    at_scale = experiment.at(scale)
    members = []
    for entry in at_scale.runs:
        given = {key: value for key, value in entry.items() if key != "label"} | {"scale": scale}
        number = seeds or at_scale.seeds
        given.setdefault("seed", list(range(first_seed, first_seed + number)))
        if text and given.get("task") == "language":
            given["task.text"] = text
        lists = [value if isinstance(value, list) else [value] for value in given.values()]
        for combination in product(*lists):
            values = dict(zip(given, combination, strict=True))
            # A standard model has no loops.
            absent = ("loops", "max_loops", "halt_by") if values.get("model") == "standard" else ()
            evaluation = {
                f"evaluation.{key}": value
                for key, value in at_scale.evaluation.items()
                if key not in absent
            }
            budget, reference = (values.pop(key, 0) for key in ("budget", "budget_tokens"))
            config = command_of(values | evaluation).config
            if budget:
                from .flops import of_budget  # takes torch

                values |= of_budget(config, float(budget), int(reference))
                config = command_of(values | evaluation).config
            config = replace(config, folder=folder, device=device)
            label = str(entry["label"])
            for key in re.findall(r"\{([\w.]+)\}", label):
                label = label.replace(f"{{{key}}}", str(setting_of(config, key)))
            label = re.sub(r"\b1 (layer|head|loop|step)s\b", r"1 \1", label)
            members.append(Member(label, tuple(words_of(values)), config))
    return members


def configuration(values: Mapping[str, Any]) -> Config:
    """The configuration of a command with these words by key, as {"task": "linear"}."""
    return command_of(values).config


def described(members: Sequence[Member]) -> list[str]:
    """Each member's label, with those of its words that it does not say, that not all members have
    and that its numbers depend on."""
    common = set.intersection(*(set(member.words) for member in members)) if members else set()
    names = []
    for member in members:
        said = member.label.split(", ")
        own = [
            word
            for word in member.words
            if word not in common
            and in_words(*word.split("=", 1)) not in said
            and not word.startswith("training.snapshots=")
        ]
        names.append(f"{member.label} ({' '.join(own)})" if own else member.label)
    return names


def words_of(values: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command."""
    return [f"{key}={as_word(value)}" for key, value in values.items()]
