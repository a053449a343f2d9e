"""A task's own settings, with the types of their defaults in conf/task/."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ..mistakes import ConfigError, nearest
from ..plugins import added_tasks
from ..setting import convert_scalar

_FOLDER = Path(__file__).parents[1] / "task"


def task_names() -> list[str]:
    """The tasks that have a file."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def own_settings(name: str) -> dict[str, Any] | None:
    """A task's own settings with their defaults: from its file, or from its class where it was
    registered outside the project; None for an unknown task."""
    defaults = _read(name) if name in task_names() else added_tasks().get(name)
    return deepcopy(defaults)


def typed_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A task's settings, each with the type of its default; settings left out stay out. Those of
    an unknown task are returned unchanged. ConfigError for an unknown setting and a value of
    another type."""
    defaults = own_settings(name)
    if defaults is None:
        return dict(settings)
    for key in settings:
        if key not in defaults:
            hint = nearest(str(key), defaults) if defaults else ", which has none of its own"
            raise ConfigError(f"task.{key}", f"is not a setting of task={name}{hint}")
    return {key: _typed(defaults[key], value, f"task.{key}") for key, value in settings.items()}


def _typed(default: Any, value: Any, key: str) -> Any:
    """`value` with the type of its default: a bool, a number, a name or a tuple of those."""
    if not isinstance(default, list):
        return convert_scalar(type(default), value, key)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(convert_scalar(type(default[0]), item, key) for item in items)


@lru_cache
def _read(name: str) -> dict[str, Any]:
    values = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return {key: default for key, default in values.items() if key != "name"}
