"""Words `key=value` to commands with checked configurations: the files of conf/ for the chosen
task, model, scale and recipe, then what is given. No torch here.

config = commands(["task=linear", "training.steps=500"])[0].config
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from math import comb
from os.path import normpath
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args

from .actions import DATA, SUBJECTS, Command, subject
from .build import config_from_mapping, config_to_mapping, convert_scalar, flatten
from .checks.checkpoint import why_not_one_file
from .checks.config import MOST_SUPPORTS
from .checks.folders import check_folder
from .command import as_word
from .files import choices, own_settings, read_values
from .mistakes import ConfigError, check_choice, nearest_action, nearest_key
from .plugins import added_tasks, load_plugins, of_a_plugin
from .saved import read_config
from .schema import Action, Config, TrainingConfig
from .setting import all_settings
from .words import alternatives, check_words, is_list, nested, read_value

GROUPS = ("task", "model", "scale", "recipe")
_TOKENS = "model.tokens"
_DEFAULTS = {"task": "sparse_linear", "model": "looped", "scale": "small", _TOKENS: "interleaved"}
_RECIPES = {"paper": "paper"}  # by scale, where it is not the fast one
_PROPORTIONAL = "curriculum.proportional"  # on the command line, no setting of a run
_HIDDEN = ("schema_version", "task.name", "model.family")
# Of experiments, of the report, of tables of runs, of texts, of models that travel, and of curves.
_OTHER_ACTIONS = ("figure", "report", "list", "generate", "core", "export", "play")
# Lists on which no number of a run depends: their commas make no grid.
LISTS = (
    "plugins",
    "training.snapshots",
    "evaluation.baselines",
    "evaluation.shifts",
    "figures.format",
    "figures.labels",
)
_READ_AT = ("evaluation.loops", "evaluation.max_loops", "evaluation.halt_by")  # they number loops
# The starts of keys of settings that a family does not have.
_ABSENT = {
    "standard": ("loops.", "curriculum.loops.", *_READ_AT),
    "tied": (
        "loops.T",
        "loops.grad_loops",
        "loops.sampling",
        "loops.least",
        "curriculum.loops.",
    ),
}


def commands(words: Sequence[str], multirun: bool = False) -> list[Command]:
    """The commands of these words: one, or with `multirun` one for each combination of the
    comma-separated values. Raises ConfigError, naming the key, for any mistake."""
    given = _texts(words)
    if not multirun:
        return [_single(given)]
    several = [_values(key, text) for key, text in given.items()]
    members = []
    # The last key varies fastest, as in nested loops in the order of the words.
    for values in product(*several):
        texts = dict(zip(given, values, strict=True))
        members.append(_command(_given(texts), texts))
    return members


def _single(texts: Mapping[str, str]) -> Command:
    """The command of these texts by key. Raises ConfigError, which says how a grid is made where a
    value is several."""
    try:
        return _command(_given(texts), texts)
    except ConfigError as error:
        text = texts.get(error.key, "")
        task = texts.get("task", "")
        is_one = error.key in SUBJECTS or is_list(_hint(error.key, task))
        if is_one or not re.fullmatch(r"[^=,]+(,[^=,]+)+", text):
            raise
        grid = "several values are for a grid: run.py -m, or train_grid"
        raise ConfigError(error.key, f"{error.problem} ({grid})") from None


def grid_commands(words: Sequence[str]) -> list[Command]:
    """The commands of a grid. Raises ConfigError for a mistake in its words, and for one that does
    not train."""
    if not words:
        raise ConfigError("a grid", "has no runs: task=linear loops.b=4,8 seed=0,1 are four")
    members = commands(words, multirun=True)
    for member in members:
        if member.action != "train":
            raise ConfigError("action", f"cannot be {member.action} for a grid (-m), which trains")
    check_folder("folder", members[0].config.folder)  # the same for all
    return members


def origins_of(words: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Each value of the run of these words, by key, and the file that it comes from, as `settled`
    has it. Raises ConfigError as `commands` does, and for words that train nothing: a run's own
    settings stand in its config.yaml."""
    action = commands(words)[0].action
    if action not in ("train", "plan", "tune"):
        raise ConfigError("--settings", f"is for a training, not for action={action}")
    values, origins = settled(_given(_texts(words)))
    sections = config_to_mapping(Config()).keys() - {"schema_version"}
    of_run = {}
    for key, origin in origins.items():
        if key in values and key.partition(".")[0] in sections:
            of_run[key] = (values[key], origin)
    return of_run


def _texts(words: Sequence[str]) -> dict[str, str]:
    """The texts that were typed, by key. Loads their plugins, which have settings of their own."""
    check_words(words, "; --help shows some", get_args(Action) + _OTHER_ACTIONS)
    given = {}
    for word in words:
        key, _, text = word.partition("=")
        given[key] = text
    if "plugins" in given:
        paths = read_value("plugins", given["plugins"], tuple[str, ...])
        load_plugins(paths, edited_too=True)
    return given


def _values(key: str, text: str) -> list[str]:
    """The values between the commas of a word of a grid, but of a folder's name and of `LISTS` the
    whole. Raises ConfigError for one that is empty or given twice."""
    if key == "folder" or key in LISTS:
        return [text]
    if text.startswith("range("):
        problem = f"cannot be {text!r}: values have commas between them, as {key}=0,1"
        raise ConfigError(key, problem)
    several = alternatives(text)
    for value in several:
        if not value or several.count(value) > 1:
            raise ConfigError(key, f"holds {value} twice" if value else "has no value")
    return several


def _given(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values that were typed, each by the type of its setting. Raises ConfigError for one that
    cannot be read."""
    task = texts.get("task", "")
    values = {}
    for key, text in texts.items():
        hint = str if key in GROUPS else _hint(key, task)
        values[key] = read_value(key, text, hint)
    return values


def _hint(key: str, task: str) -> Any:
    """The type of a setting of these tasks; None for one that is not known."""
    if key in _hints():
        return _hints()[key]
    if not key.startswith("task."):
        return None
    for name in [task] if task in choices("task") else choices("task"):
        default = (own_settings(name) or {}).get(key.partition(".")[2])
        if isinstance(default, list):
            return GenericAlias(tuple, (type(default[0]) if default else str, ...))
        if default is not None:
            return type(default)
    return None


@cache
def _hints() -> dict[str, Any]:
    """The types of the settings that every run has, and of what a command works on."""
    subjects = {"run": str, "checkpoint": str, "runs": tuple[str, ...]}
    return {key: item.hint for key, item in all_settings(Config).items()} | subjects


def _command(given: dict[str, Any], typed: Mapping[str, str]) -> Command:
    words = []
    for key, text in typed.items():
        value = given[key]
        if not isinstance(value, str | list):
            text = as_word(value)  # a number has one spelling
        words.append(f"{key}={text}")
    return _import(given, words) if given.get("action") == "import" else command_of(given, words)


def command_of(given: Mapping[str, Any], words: Sequence[str] = ()) -> Command:
    """The command of given values by key, those of groups among them; `words` are what they were
    read from. Raises ConfigError, naming the key, for any mistake."""
    values, _ = settled(given)
    action = values.pop("action")
    if action not in get_args(Action):
        others = set(get_args(Action) + _OTHER_ACTIONS) - {action}
        raise ConfigError("action", f"cannot be {action!r}{nearest_action(str(action), others)}")
    again = convert_scalar(bool, values.pop("again"), "again")
    paths = subject(action, {key: values.pop(key) for key in SUBJECTS}, list(given))
    if action in ("train", "plan", "tune"):
        # A task's own settings, which are among the others on the command line, are a group.
        for key in own_settings(values["task.name"]) or {}:
            # Only here, after all words: on the command line nobody types `settings`.
            values[f"task.settings.{key}"] = values.pop(f"task.{key}")
    else:
        values = _run_settings(Path(paths[0]), given, values)
        for path in paths[1:]:
            read_config(Path(path))
    if action == "compare":  # each run has its own loops
        values |= {key: None for key in _READ_AT if key not in given}
    else:
        _check_loops(values, given)
    config = config_from_mapping(nested(values))
    return Command(action, paths, config, tuple(words), again=again)


def settled(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Every value by dotted key, and the file that it comes from, 'given', or 'fitted' where the
    others decide it. Raises ConfigError for a key that is no setting."""
    _check_groups(given)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in _layers(given):
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    if given.get("action") in ("evaluate", "compare"):  # the run says which task it is
        values |= _all_tasks()
    _check_keys(given, values)
    # Those of scale and task, before the given ones replace them.
    base_steps = values["training.steps"]
    settings = {key: value for key, value in given.items() if key not in GROUPS}
    values = _without_references(values | settings)
    # What differs from this below was fitted, not given.
    before = dict(values)
    _stretch(values, base_steps, given)
    _fit_recipe(values, given)
    if values["task.name"] == "language":  # a run has one name however they are typed
        for key in ("task.text", "task.held_out_text", "task.eval", "task.tokens"):
            if isinstance(values[key], str) and values[key]:
                values[key] = normpath(values[key])
    plugins = values["plugins"] if isinstance(values["plugins"], list) else [values["plugins"]]
    values["plugins"] = [str(Path(str(path)).absolute()) for path in plugins]
    for key in values:
        if key in settings:
            origins[key] = "given"
        elif values[key] != before[key]:
            origins[key] = "fitted"
    return values, origins


def _layers(given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The defaults, and the values of the files for the given groups, a scale's own recipe among
    them, each after those that it overrides, by dotted key.

    A scale says how large everything is, a recipe how it is trained there. A model comes last: what
    its paper's loss is, it is at every scale. A section below a file's `where` holds for the groups
    and the tokens that it names.
    """
    names = dict(_DEFAULTS)
    for key in (*GROUPS, _TOKENS):
        if key in given:
            names[key] = given[key]
    names.setdefault("recipe", _RECIPES.get(names["scale"], "fast"))
    task = names["task"]
    command = {"action": "train", "again": False, _PROPORTIONAL: False}
    yield "conf/schema.py", flatten(config_to_mapping(Config())) | command | SUBJECTS
    # | binds tighter than `or`: a plugin's task has its name and its own defaults.
    of_task = read_values(f"task/{task}") or {"name": task} | added_tasks()[task]
    yield f"conf/task/{task}.yaml", {f"task.{key}": value for key, value in of_task.items()}
    for group in ("scale", "recipe", "model"):
        file = f"{group}/{names[group]}"
        content = dict(read_values(file))
        sections = content.pop("where", {})
        yield f"conf/{file}.yaml", flatten(content)
        for words, section in sections.items():
            conditions = [word.split("=") for word in words.split()]
            if all(names[key] in allowed.split(",") for key, allowed in conditions):
                yield f"conf/{file}.yaml, {words}", flatten(section)


def _all_tasks() -> dict[str, Any]:
    """The own settings of every task."""
    settings = {}
    for name in choices("task"):
        for key, value in (own_settings(name) or {}).items():
            settings[f"task.{key}"] = value
    return settings


def _check_groups(given: Mapping[str, Any]) -> None:
    for key in GROUPS:
        if key in given:
            check_choice(key, given[key], choices(key), of_a_plugin)


def _check_keys(given: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises ConfigError for a key that is no setting and no group, and for one that a group
    chooses."""
    for key, value in given.items():
        if key in ("task.name", "model.family"):
            raise ConfigError(key, f"is chosen by {key.partition('.')[0]}=")
        if key not in settings and key not in GROUPS:
            members = [name for name in settings if name.startswith(f"{key}.")]
            if members:
                raise ConfigError(key, f"is a group of settings{nearest_key(key, members)}")
            options = [name for name in list(settings) + list(GROUPS) if name not in _HIDDEN]
            raise ConfigError(key, f"is not a setting{nearest_key(key, options)}")
        if isinstance(value, Mapping):
            raise ConfigError(key, f"cannot be {value!r}")


def _without_references(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, ${key} replaced by that setting's; ConfigError where that has none, or one of
    this kind."""
    settled_values = dict(values)
    for key, value in values.items():
        if isinstance(value, str) and "${" in value:
            # Without `${` and `}`; what names no setting stands for itself, and is refused.
            target = values.get(value[2:-1], value)
            # A reference to a reference: one level is enough, and no circle has to be looked for.
            if isinstance(target, str) and "${" in target:
                raise ConfigError(key, f"cannot be {value!r}, which names no other setting")
            settled_values[key] = target
    return settled_values


def _stretch(values: dict[str, Any], base_steps: int, given: Mapping[str, Any]) -> None:
    """Remove `curriculum.proportional`; where it is true, multiply every interval by the run's
    steps over `base_steps`, those of scale and task: growth then ends at the same fraction of
    training.

    Intervals are rounded down, to at least 1. Numbers that do not grow, and sampled loops, keep
    theirs. Raises ConfigError where an interval is given.
    """
    if not convert_scalar(bool, values.pop(_PROPORTIONAL), _PROPORTIONAL):
        return
    for key in given:
        if key.startswith("curriculum.") and key.endswith(".intervals"):
            raise ConfigError(_PROPORTIONAL, f"cannot be true beside {key}=, which says how long")
    steps = convert_scalar(int, values["training.steps"], "training.steps")
    looped = values["model.family"] == "looped" and values["loops.sampling"] == "none"
    for name in ("dims", "points", "loops"):
        growth = f"curriculum.{name}"
        grows = looped if name == "loops" else values[f"{growth}.start"] is not None
        if grows:
            intervals = values[f"{growth}.intervals"]
            # Whole steps: multiplied first, so that only the quotient is rounded.
            values[f"{growth}.intervals"] = [max(1, n * steps // base_steps) for n in intervals]


def _fit_recipe(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Undo the recipe's settings that contradict given ones.

    These are Muon's rate under another optimiser, the rate of a head which is the embedding, and a
    curriculum that would start beyond its end, or of sampled loops. No task has the posterior means
    of finitely many prompts or functions; those of many supports are not summed over."""
    finite = values["task.distinct_prompts"] or values["task.distinct_functions"]
    dims = values["task.dims"]
    sparsity = values.get("task.sparsity", 0)
    sizes = isinstance(dims, int) and isinstance(sparsity, int) and 0 < sparsity <= dims
    many = sizes and comb(dims, sparsity) > MOST_SUPPORTS
    for name, contradicts in (
        ("muon_rate", values["training.optimizer"] != "muon"),
        ("head_rate", values["model.tied_head"] is True),
        ("targets", finite or many),
    ):
        if contradicts and f"training.{name}" not in given:
            values[f"training.{name}"] = getattr(TrainingConfig, name)
    if values["loops.sampling"] != "none" and "curriculum.loops.start" not in given:
        values["curriculum.loops.start"] = None
    for name, end_key in (("dims", "task.dims"), ("points", "task.points"), ("loops", "loops.b")):
        key = f"curriculum.{name}.start"
        start = values[key]
        end = values[end_key]
        if key not in given and isinstance(start, int) and isinstance(end, int) and start > end:
            values[key] = end


def _import(given: dict[str, Any], words: list[str]) -> Command:
    """The command of action=import: the given values alone, without those of a task or a scale."""
    _check_groups(given)
    _check_keys(given, next(_layers({}))[1] | _all_tasks())
    (path,) = subject("import", {"checkpoint": given.get("checkpoint", "")}, list(given))
    problem = why_not_one_file(Path(path))
    if problem:
        raise ConfigError("checkpoint", problem)
    if not Path(path).is_file():
        raise ConfigError("checkpoint", f"is no file: {path}")
    settings = dict(given)
    for key in ("checkpoint", "action"):
        settings.pop(key, None)
    folder = convert_scalar(str, settings.pop("folder", Config.folder), "folder")
    return Command("import", (path,), Config(folder=folder), tuple(words), settings)


def _run_settings(run: Path, given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A run's own settings, with this command's given evaluation and picture settings, its format
    of tables, device and folder, and where its data are today."""
    settings = flatten(config_to_mapping(read_config(run)))
    for key in given:
        if key == "plugins" or key.startswith(("evaluation.", "figures.")):
            settings[key] = values[key]
        elif key == "task.eval":
            settings["task.settings.eval"] = values[key]
        elif key in DATA:
            name = key.removeprefix("task.")
            # A run remembers where its data are, whichever folder it is evaluated from.
            settings[f"task.settings.{name}"] = str(Path(values[key]).absolute())
    for key in ("device", "folder", "tables.format"):
        settings[key] = values[key]
    return settings


def _check_loops(values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises ConfigError for given settings that a family, sampled loops, or lanes, whose weights
    are for a number of loops, do not have."""
    family = values["model.family"]
    sampling = values["loops.sampling"]
    b = values["loops.b"]
    absent = _ABSENT.get(family, ())
    for key in given:
        if key.startswith(absent):
            raise ConfigError(key, f"has no meaning with model={family}")
        if sampling != "none" and key in ("curriculum.loops.inc", "curriculum.loops.intervals"):
            raise ConfigError(key, f"has no meaning with loops.sampling={sampling}")
        value = values.get(key)
        if values["model.lanes"] and key in _READ_AT and isinstance(value, int) and value > b:
            problem = f"is {value}, but model.lanes have weights of their own for each of {b} loops"
            raise ConfigError(key, problem)
