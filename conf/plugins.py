"""Files of the user, which register tasks, baselines, ways to loop, shifts and probe targets.

load_plugins(["my_file.py"])          # settings can name what it registers from here on
"""

import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from .mistakes import ConfigError, one_line

# Before the names of their modules: a plugin may have the name of any other module.
PREFIX = "plugin:"
_NAMES: dict[str, list[str]] = {}  # added names by setting
_TASKS: dict[str, dict[str, Any]] = {}  # added tasks: own settings with defaults


def load_plugins(paths: Iterable[str]) -> None:
    """Import files, each name once in a process: a file that has moved since its first import is
    not imported again.

    Raises ConfigError for a file that does not exist, or cannot be imported.
    """
    files = [Path(path) for path in paths]
    names = [path.stem for path in files]
    for path in files:
        if names.count(path.stem) > 1:
            raise ConfigError("plugins", f"names two files {path.name}: rename one")
        if PREFIX + path.stem not in sys.modules:
            _load(path)


def failure(error: BaseException) -> str:
    """An error as a line that names the plugin whose code raised it, or what that code called; or
    the plugins, which may have returned what raised it later. Empty where there are none."""
    what = f"{type(error).__name__}: {one_line(error)}"
    path, line = _place(error, PREFIX)
    files = [each.__file__ for name, each in sys.modules.items() if name.startswith(PREFIX)]
    if path or not files:
        return f"{path}, line {line}: {what}" if path else ""
    path, line = _place(error, "")
    code = ", ".join(map(str, files))
    return f"{what} ({path}, line {line}); see what the code in {code} returns"


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
    name = PREFIX + path.stem
    if path.suffix != ".py" or not path.is_file():
        problem = "is no Python file" if path.exists() else "does not exist"
        raise ConfigError("plugins", f"names {path}, which {problem}")
    if _is_another(path):
        remark = f"plugins: {path} is named as another module; import {path.stem} gets that one"
        print(remark, file=sys.stderr, flush=True)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    if (folder := str(path.absolute().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports from beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else _place(error, PREFIX)[1]
        place = f" in line {line}" if line else ""
        problem = f"fails{place} with {type(error).__name__}: {error}"
        raise ConfigError("plugins", f"names {path}, which {problem}") from error


def _is_another(path: Path) -> bool:
    """Says whether an import of a file's name would get another module."""
    try:
        spec = find_spec(path.stem)
    except (ImportError, ValueError):  # a part of no package, the module of a shell
        return path.stem in sys.modules
    return spec is not None and (not spec.origin or Path(spec.origin).resolve() != path.resolve())


def _place(error: BaseException, prefix: str) -> tuple[str, int]:
    """File and line of the innermost call on an error's way in a module whose name begins so; ("",
    0) for none."""
    place, trace = ("", 0), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith(prefix):
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return place
