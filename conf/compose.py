"""The command line: `key=value` words, in Hydra's grammar, to checked configurations. No torch
here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import product
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from .actions import DATA, SUBJECTS, Command, subject
from .aliases import resolve_alias
from .build import config_from_mapping, config_to_mapping, convert_scalar, flatten
from .checks.config import own_settings
from .groups import GROUPS, choices, composed, stretch
from .mistakes import ConfigError, check_choice, nearest, one_line
from .plugins import load_plugins
from .saved import read_config
from .schema import Action, Config, TrainingConfig
from .setting import all_settings
from .words import check_words, is_list, is_text, list_items, unquoted

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override, RangeSweep

_HIDDEN = ("schema_version", "task.name", "model.family")
# Of experiments, of the report, of tables of runs, and of texts.
_OTHER_ACTIONS = ("figure", "report", "list", "generate")
_READ_AT = ("loops", "max_loops", "halt_by")  # settings of an evaluation that number loops
_PLAIN = re.compile(r"([A-Za-z_]|\.{0,2}/)[\w./@+:%*?|-]*", re.ASCII)  # begins as no number does
_SWEEP = re.compile(r"(choice|glob|shuffle|sort|tag)\(.*\)")  # Hydra's functions of texts
_NO_TEXTS = ("null", "true", "false", "nan", "inf")  # for Hydra
_MOST = 10_000  # runs of a grid


def commands(words: list[str], multirun: bool = False) -> list[Command]:
    """The commands of these words: one, or with `multirun` one for each combination of the
    comma-separated values. Raises ConfigError, naming the key, for any mistake."""
    if not multirun and any(word.startswith("together=") for word in words):
        raise ConfigError("together", "is for the members of a grid: run.py -m …")
    words, overrides = _overrides(words, multirun)
    grid = members(overrides) if multirun else [words]
    return [_command(list(member)) for member in grid]


def _overrides(words: list[str], multirun: bool) -> tuple[list[str], list[Override]]:
    """The words in Hydra's grammar, texts among them quoted, and read; their plugins are loaded."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    _check_words(words)
    for word in words:
        key, _, text = word.partition("=")
        if key == "plugins":  # first, for they have settings of their own
            load_plugins(_items(key, text))
    tasks = [word.partition("=")[2] for word in words if word.startswith("task=")]
    words = [_typed(word, multirun, tasks) for word in words]
    try:
        overrides = OverridesParser.create().parse_overrides(words)
    except OverrideParseException as error:
        raise ConfigError(
            repr(error.override), "cannot be read; quote lists: 'key=[1,2]'"
        ) from None
    except ValueError as error:  # an integer of thousands of digits
        raise ConfigError("settings", f"cannot be read: {one_line(error)}") from None
    for override in overrides:
        check_sweep(override, multirun)
    return words, overrides


def _check_words(words: list[str]) -> None:
    """Raises ConfigError for a word that is not key=value, for a key that is given twice or chosen
    by another."""
    check_words(words, "; --help shows some")
    for word in words:
        key = word.partition("=")[0]
        if key in ("task.name", "model.family"):
            raise ConfigError(key, f"is chosen by {key.partition('.')[0]}=")
        if "-" in key:  # no setting has one, but an alias may
            raise ConfigError(key, f"is not a setting{_nearest_key(key, flatten(composed({})))}")


def _command(words: list[str]) -> Command:
    for word in words:
        key, _, value = word.partition("=")
        if key in GROUPS:
            check_choice(key, value, choices(key))
    given = _given(words)
    return _import(given, words) if "action=import" in words else command_of(given, words)


def _given(words: list[str]) -> dict[str, Any]:
    """The values of the words, by key."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    overrides = OverridesParser.create().parse_overrides(words)
    return {str(override.key_or_group): override.value() for override in overrides}


def command_of(given: Mapping[str, Any], words: Sequence[str] = ()) -> Command:
    """The command of given values by key, those of groups among them; `words` are what they were
    read from. Raises ConfigError, naming the key, for any mistake. No Hydra here."""
    keys = list(given)
    for key in GROUPS:  # those of words were checked as they were typed
        if key in given:
            check_choice(key, given[key], choices(key))
    mapping = composed({key: value for key, value in given.items() if key in GROUPS})
    if given.get("action") in ("evaluate", "compare"):
        _add_all_tasks(mapping)  # the run says which it is
    _check_keys(keys, mapping)
    base_steps = mapping["training"]["steps"]
    mapping = composed(given)
    stretch(mapping, base_steps, keys)
    _fit_recipe(mapping, keys)
    if (task := mapping["task"])["name"] == "language":  # a run has one name however they are typed
        for key in ("text", "held_out_text", "eval", "tokens"):
            if isinstance(task[key], str) and task[key]:
                task[key] = normpath(task[key])
    plugins = mapping["plugins"] if isinstance(mapping["plugins"], list) else [mapping["plugins"]]
    mapping["plugins"] = [str(Path(str(path)).absolute()) for path in plugins]
    action = mapping.pop("action")
    if action not in get_args(Action):
        others = {*get_args(Action), *_OTHER_ACTIONS} - {action}
        raise ConfigError("action", f"cannot be {action!r}{nearest(str(action), others)}")
    again = convert_scalar(bool, mapping.pop("again"), "again")
    together = mapping.pop("together")
    check_choice("together", str(together).lower(), ("auto", "true", "false"))
    paths = subject(action, {key: mapping.pop(key) for key in SUBJECTS}, keys)
    if action in ("train", "plan"):
        # A task's own settings, which are among the others on the command line, are a group.
        task["settings"] = {key: task.pop(key) for key in _own_settings(task["name"])}
    else:
        mapping = _run_settings(Path(paths[0]), keys, mapping)
        for path in paths[1:]:
            read_config(Path(path))
    if action == "compare":  # each run has its own loops
        for key in {*_READ_AT} - {key.rpartition(".")[2] for key in keys}:
            mapping["evaluation"][key] = None
    else:
        _check_loops(mapping, keys)
        _check_lanes(mapping, keys)
    config = config_from_mapping(mapping)
    return Command(action, paths, config, tuple(words), again=again, together=together)


def _fit_recipe(mapping: dict[str, Any], keys: list[str]) -> None:
    """Undo the recipe's settings that contradict given ones: Muon's rate under another optimiser,
    that of a head which is the embedding, a curriculum that would start beyond its end, one of
    sampled loops, and posterior means of finitely many prompts or functions, which no task has."""
    if mapping["training"]["optimizer"] != "muon" and "training.muon_rate" not in keys:
        mapping["training"]["muon_rate"] = TrainingConfig.muon_rate
    if mapping["model"]["tied_head"] is True and "training.head_rate" not in keys:
        mapping["training"]["head_rate"] = TrainingConfig.head_rate
    finite = mapping["task"]["distinct_prompts"] or mapping["task"]["distinct_functions"]
    if finite and "training.targets" not in keys:
        mapping["training"]["targets"] = TrainingConfig.targets
    curriculum = mapping["curriculum"]
    if mapping["loops"]["sampling"] != "none" and "curriculum.loops.start" not in keys:
        curriculum["loops"]["start"] = None
    task, b = mapping["task"], mapping["loops"]["b"]
    for name, end in (("dims", task["dims"]), ("points", task["points"]), ("loops", b)):
        growth = curriculum[name]
        if f"curriculum.{name}.start" in keys or not isinstance(end, int):
            continue
        if isinstance(growth["start"], int) and growth["start"] > end:
            growth["start"] = end


def _import(given: dict[str, Any], words: list[str]) -> Command:
    """The command of action=import: the given values alone, without those of a task or a scale."""
    keys, mapping = list(given), composed({})
    _add_all_tasks(mapping)
    _check_keys(keys, mapping)
    (path,) = subject("import", {"checkpoint": given.pop("checkpoint", "")}, keys)
    if not Path(path).is_file():
        raise ConfigError("checkpoint", f"is no file: {path}")
    folder = convert_scalar(str, given.pop("folder", Config.folder), "folder")
    del given["action"]
    return Command("import", (path,), Config(folder=folder), tuple(words), given)


def _add_all_tasks(mapping: dict[str, Any]) -> None:
    """Add the own settings of every task to the composed `mapping`."""
    for name in choices("task"):
        mapping["task"] |= _own_settings(name)


def _typed(word: str, multirun: bool, tasks: list[str]) -> str:
    """The word in Hydra's grammar, among those of these tasks. A value that is a text, as a path
    is, is taken as it is typed; in a grid, but for its folder, between commas, unless it is a list
    or one of Hydra's functions."""
    key, _, text = word.partition("=")
    hint = _text_hint(key, tasks)
    if hint is None or (text == "null" and type(None) in get_args(hint)):
        return word
    if multirun and (is_list(hint) or _SWEEP.fullmatch(text)):
        return word
    if is_list(hint):
        return f"{key}=[{','.join(map(_quoted, _items(key, text)))}]"
    texts = _items(key, text) if multirun and key != "folder" else [unquoted(text)]
    return f"{key}={','.join(map(_quoted, texts))}"


def _text_hint(key: str, tasks: list[str]) -> Any:
    """The type of a setting that is a text or a list of them, of one of these tasks (of any, where
    they are none); None for any other."""
    if key in _text_hints():
        return _text_hints()[key]
    if key.startswith("task."):
        names = [name for name in choices("task") if name in tasks] or choices("task")
        defaults = [_own_settings(name).get(key.partition(".")[2]) for name in names]
        if any(isinstance(each, str) for each in defaults):
            return str
        lists = [each for each in defaults if isinstance(each, list)]
        return tuple[str, ...] if any(isinstance(each[0], str) for each in lists if each) else None
    return None


@cache
def _text_hints() -> dict[str, Any]:
    """Those of the settings that every run has, and of the paths that a command works on."""
    found = {key: item.hint for key, item in all_settings(Config).items() if is_text(item.hint)}
    subjects = {"run": str, "checkpoint": str, "runs": tuple[str, ...]}
    return {key: hint for key, hint in (found | subjects).items() if key not in GROUPS}


def _items(key: str, text: str) -> list[str]:
    try:
        return [unquoted(each) for each in list_items(text)]
    except ValueError as error:
        raise ConfigError(key, f"cannot be read: {error}; quote lists: '{key}=[a,b]'") from None


def _quoted(text: str) -> str:
    """A text as Hydra's grammar has it: in quotes, in which a backslash counts before a quote
    alone, unless it is a plain word."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXTS:
        return text
    escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def _check_keys(keys: list[str], mapping: dict[str, Any]) -> None:
    """Raises ConfigError for a key that is no setting of the composed `mapping` and no group."""
    settings = flatten(mapping)
    for key in keys:
        if key not in settings and key not in GROUPS:
            if key in mapping:
                raise ConfigError(key, f"is a group of settings{nearest(key, settings)}")
            raise ConfigError(key, f"is not a setting{_nearest_key(key, settings)}")


def _own_settings(name: str) -> dict[str, Any]:
    return own_settings(name) or {}


def _run_settings(run: Path, keys: list[str], mapping: dict[str, Any]) -> dict[str, Any]:
    """A run's own settings, with this command's given evaluation and picture settings, its format
    of tables, device and folder."""
    run_mapping = config_to_mapping(read_config(run))
    for key in keys:
        group, _, name = key.partition(".")
        if group in ("evaluation", "figures"):
            run_mapping[group][name] = mapping[group][name]
    settings = run_mapping["task"]["settings"]
    if "task.eval" in keys:
        settings["eval"] = mapping["task"]["eval"]
    for name in (key.partition(".")[2] for key in DATA if key in keys):
        settings[name] = str(Path(mapping["task"][name]).absolute())
    places = {name: mapping[name] for name in ("device", "folder", "tables")}
    return run_mapping | places | ({"plugins": mapping["plugins"]} if "plugins" in keys else {})


def _check_loops(mapping: dict[str, Any], keys: list[str]) -> None:
    """Raises ConfigError for given settings that a family, or sampled loops, do not have."""
    family, sampling = mapping["model"]["family"], mapping["loops"]["sampling"]
    absent = {
        "standard": ("loops.", *(f"evaluation.{name}" for name in _READ_AT)),
        "tied": ("loops.T", "loops.grad_loops", "loops.sampling", "loops.least"),
    }
    for key in keys:
        grows = family in absent and key.startswith("curriculum.loops.")
        if grows or key.startswith(absent.get(family, ())):
            raise ConfigError(key, f"has no meaning with model={family}")
        if sampling != "none" and key in ("curriculum.loops.inc", "curriculum.loops.intervals"):
            raise ConfigError(key, f"has no meaning with loops.sampling={sampling}")


def _check_lanes(mapping: dict[str, Any], keys: list[str]) -> None:
    """Raises ConfigError for a given number of loops above the number of lane weights; where a
    scale sets it, an evaluation ends with the weights."""
    b = mapping["loops"]["b"]
    if not mapping["model"]["lanes"] or not isinstance(b, int):
        return
    for name in _READ_AT:
        value = mapping["evaluation"][name]
        if f"evaluation.{name}" in keys and isinstance(value, int) and value > b:
            raise ConfigError(
                f"evaluation.{name}",
                f"is {value}, but model.lanes have weights of their own for each of {b} loops",
            )


def _nearest_key(key: str, settings: dict[str, Any]) -> str:
    """A hint with the setting that `key` is an alias of, or that is nearest as a whole or by its
    last part."""
    options = [name for name in [*settings, *GROUPS] if name not in _HIDDEN]
    match = resolve_alias(key, options)
    matches = [match] if match else get_close_matches(key, options, n=1, cutoff=0.75)
    if not matches:
        by_last = {name.rpartition(".")[2]: name for name in reversed(options)}
        last = get_close_matches(key.rpartition(".")[2], by_last, n=1, cutoff=0.7)
        matches = [by_last[name] for name in last]
    return f"; did you mean {matches[0]!r}?" if matches else "; --help and conf/schema.py list them"


def check_sweep(override: Override, multirun: bool) -> None:
    """Raises ConfigError, naming the key, for several values without -m, and for none, too many or
    repeated ones in a grid."""
    from hydra.core.override_parser.types import ChoiceSweep, RangeSweep, Sweep

    if not override.is_sweep_override():
        return
    key = str(override.key_or_group)
    if not multirun:
        raise ConfigError(key, "has several values: run them one by one with -m")
    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        _check_range(key, sweep)
    elif not isinstance(sweep, ChoiceSweep) or any(isinstance(x, Sweep) for x in sweep.list):
        raise ConfigError(key, "cannot be read: name the values of a grid, as in key=a,b")
    values = list(override.sweep_string_iterator())
    if not values:
        raise ConfigError(key, "has no value: the grid is empty")
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(key, f"holds {value} twice")


def members(overrides: list[Override]) -> list[list[str]]:
    """The words of each run of a grid. Raises ConfigError where there are too many to list."""
    number, choices = 1, []
    for override in overrides:
        key = override.get_key_element()
        if override.is_sweep_override():
            values = [str(value) for value in override.sweep_string_iterator()]
        else:
            values = [override.get_value_element_as_str()]
        number *= len(values)
        if number > _MOST:
            raise ConfigError(key, f"makes a grid of more than {_MOST:,} runs")
        choices.append([f"{key}={value}" for value in values])
    return [list(member) for member in product(*choices)]


def _check_range(key: str, sweep: RangeSweep) -> None:
    assert sweep.start is not None
    assert sweep.stop is not None
    if sweep.step == 0:
        raise ConfigError(key, "is a range with a step of 0")
    if abs(sweep.stop - sweep.start) / abs(sweep.step) > _MOST:
        raise ConfigError(key, f"makes a grid of more than {_MOST:,} runs")
