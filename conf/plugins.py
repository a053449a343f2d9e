"""Files of a user's own, which register tasks, baselines, ways to loop, shifts and probe targets.

load_plugins(["my_file.py"])          # what it registers can be named in settings from here on
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from .mistakes import ConfigError

_ADDED: dict[str, list[str]] = {}  # names by the setting that takes them
_TASKS: dict[str, dict[str, Any]] = {}  # registered outside the project: own settings, defaults
_LOADED: set[str] = set()  # names of modules


def load_plugins(paths: Iterable[str]) -> None:
    """Import files, each once in a process, as modules of their own names. A file that has moved
    since a run was made with it is found where it was imported from before.

    Raises ConfigError for one that is not there, cannot be imported, or has the name of another
    module.
    """
    files = [Path(path) for path in paths]
    names = [path.stem for path in files]
    for path in files:
        if names.count(path.stem) > 1:
            raise ConfigError("plugins", f"names two files {path.name}: rename one")
    for path in files:
        if path.stem not in _LOADED:
            _load(path)


def add_name(key: str, name: str) -> None:
    """Let the setting `key` take a name beside those that its type lists."""
    if name not in _ADDED.setdefault(key, []):
        _ADDED[key].append(name)


def added_names(key: str) -> list[str]:
    """The names that were added to a setting."""
    return _ADDED.get(key, [])


def add_task(name: str, defaults: Mapping[str, Any]) -> None:
    """Let `task` take a name that has no file in conf/task/, with its own settings' defaults."""
    _TASKS[name] = dict(defaults)


def added_tasks() -> dict[str, dict[str, Any]]:
    """Own settings and their defaults of the tasks that were added."""
    return _TASKS


def _load(path: Path) -> None:
    name = path.stem
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError("plugins", f"names {path}, which is no Python file")
    if name in sys.modules:
        raise ConfigError("plugins", f"names {path}, but another module is named {name}: rename it")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "plugins", f"names {path}, which fails{_line(error, path)} with {said}"
        ) from error
    _LOADED.add(name)


def _line(error: Exception, path: Path) -> str:
    """In which line of the file it failed, where that is known."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" in line {line}" if line else ""
