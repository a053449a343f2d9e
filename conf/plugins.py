"""Files of the user, which register tasks, baselines, ways to loop, shifts and probe targets.

load_plugins(["my_file.py"])          # settings can name what it registers from here on
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from .mistakes import ConfigError

_NAMES: dict[str, list[str]] = {}  # added names by setting
_TASKS: dict[str, dict[str, Any]] = {}  # added tasks: own settings with defaults
_MODULES: set[str] = set()  # names of loaded modules


def load_plugins(paths: Iterable[str]) -> None:
    """Import files as modules of their names, each once in a process: a file that has moved since
    its first import is not imported again.

    Raises ConfigError for a file that does not exist, cannot be imported, or has the name of
    another module.
    """
    files = [Path(path) for path in paths]
    names = [path.stem for path in files]
    for path in files:
        if names.count(path.stem) > 1:
            raise ConfigError("plugins", f"names two files {path.name}: rename one")
    for path in files:
        if path.stem not in _MODULES:
            _load(path)


def add_name(key: str, name: str) -> None:
    """Let the setting `key` take a name in addition to those of its type."""
    if name not in _NAMES.setdefault(key, []):
        _NAMES[key].append(name)


def added_names(key: str) -> list[str]:
    """The names that were added to a setting."""
    return _NAMES.get(key, [])


def add_task(name: str, defaults: Mapping[str, Any]) -> None:
    """Let `task` take a name that has no file in conf/task/, with its own settings' defaults."""
    _TASKS[name] = dict(defaults)


def added_tasks() -> dict[str, dict[str, Any]]:
    """The added tasks: own settings with defaults by name."""
    return _TASKS


def _load(path: Path) -> None:
    name = path.stem
    if path.suffix != ".py" or not path.is_file():
        problem = "is no Python file" if path.exists() else "does not exist"
        raise ConfigError("plugins", f"names {path}, which {problem}")
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
        message = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "plugins", f"names {path}, which fails{_line(error, path)} with {message}"
        ) from error
    _MODULES.add(name)


def _line(error: Exception, path: Path) -> str:
    """The line of the file that failed, as text; empty where unknown."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" in line {line}" if line else ""
