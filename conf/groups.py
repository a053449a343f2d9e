"""The files of conf/: the values of the chosen task, model, scale and recipe, overridden by the
given ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .actions import SUBJECTS
from .build import config_to_mapping, flatten
from .mistakes import ConfigError
from .plugins import added_tasks
from .schema import Config
from .setting import convert_scalar
from .words import merge, nested, read_yaml

GROUPS = ("task", "model", "scale", "recipe")
_FOLDER = Path(__file__).parent
_DEFAULTS = {"task": "sparse_linear", "model": "looped", "scale": "small"}
_RECIPES = {"paper": "paper"}  # by scale, where it is not the fast one
# Later files override earlier ones, and all of them the defaults of schema.py; some need not exist.
# A scale says how large everything is, a recipe how it is trained there. A model's own file comes
# after both: what its paper's loss is, it is at every scale.
_FILES = (
    "scale/{scale}", "scale/{scale}/{task}", "recipe/{recipe}", "recipe/by_scale/{recipe}-{scale}",
    "recipe/by_task/{recipe}-{scale}-{task}", "model/{model}",
    "scale/by_model/{scale}-{task}-{model}",
)  # fmt: skip
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
PROPORTIONAL = "proportional"  # a key of `curriculum` on the command line, no setting of a run
_KEY = f"curriculum.{PROPORTIONAL}"


def choices(group: str) -> list[str]:
    """The names that `task`, `model`, `scale` or `recipe` may take: the files of conf/<group>/, and
    the tasks that were registered outside the project."""
    files = [path.stem for path in (_FOLDER / group).glob("*.yaml")]
    return sorted({*files, *(added_tasks() if group == "task" else ())})


def composed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the groups among the given ones (a scale has its own recipe), overridden by the
    other given ones, each with its dotted key; ${key} in a text is replaced by that setting.

    Raises ConfigError for a reference to no setting, and for a mapping in place of a list.
    """
    names = _DEFAULTS | {key: given[key] for key in GROUPS if key in given}
    names.setdefault("recipe", _RECIPES.get(names["scale"], "fast"))
    command = {"action": "train", "again": False, "together": False, **SUBJECTS}
    values = config_to_mapping(Config()) | command
    del values["task"]["settings"]  # they are among the others, as task.sparsity
    values["curriculum"][PROPORTIONAL] = False
    task = names["task"]
    merge(values["task"], read_values(f"task/{task}") or {"name": task, **added_tasks()[task]})
    for file in _FILES:
        merge(values, read_values(file.format(**names)))
    flat = flatten(values)
    for key, value in given.items():
        if isinstance(value, Mapping) and isinstance(flat.get(key), list):
            raise ConfigError(key, f"cannot be {value!r}")
        if key not in GROUPS:
            merge(values, nested(key, value))
    flat = flatten(values)
    for key, value in flat.items():
        if isinstance(value, str) and "${" in value:
            merge(values, nested(key, _value_of(key, flat)))
    return values


def _value_of(key: str, flat: Mapping[str, Any], *within: str) -> Any:
    """A setting's value, with those of the settings that its text names."""
    if key not in flat or key in within:
        raise ConfigError("settings", f"cannot be put together: ${{{key}}} has no value")
    value = flat[key]
    if not isinstance(value, str):
        return value
    if "${" in _REFERENCE.sub("", value):
        raise ConfigError(key, f"cannot be {value!r}")
    if match := _REFERENCE.fullmatch(value):
        return _value_of(match[1], flat, *within, key)
    return _REFERENCE.sub(lambda match: str(_value_of(match[1], flat, *within, key)), value)


@lru_cache
def read_values(name: str) -> Mapping[str, Any]:
    """The values in a file of conf/; none where it does not exist."""
    path = _FOLDER / f"{name}.yaml"
    return read_yaml(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


def stretch(mapping: dict[str, Any], base_steps: int, keys: Sequence[str]) -> None:
    """Remove `curriculum.proportional` from the composed `mapping`; where it is true, multiply
    every interval by the run's steps over `base_steps`, those of scale and task: growth then ends
    at the same fraction of training.

    Intervals are rounded down, to at least 1. Numbers that do not grow, and sampled loops, keep
    theirs. Raises ConfigError where `keys`, the given ones, include an interval.
    """
    curriculum, steps = mapping["curriculum"], mapping["training"]["steps"]
    if not convert_scalar(bool, curriculum.pop(PROPORTIONAL), _KEY):
        return
    for key in keys:
        if key.startswith("curriculum.") and key.endswith(".intervals"):
            raise ConfigError(_KEY, f"cannot be true beside {key}=, which says how long itself")
    steps = convert_scalar(int, steps, "training.steps")
    for name, growth in curriculum.items():
        grows = growth["start"] is not None
        if name == "loops":
            looped = mapping["model"]["family"] == "looped"
            grows = looped and mapping["loops"]["sampling"] == "none"
        if grows:
            growth["intervals"] = [max(1, i * steps // base_steps) for i in growth["intervals"]]
