"""Files of the user, which register tasks, baselines, ways to loop, shifts and probe targets.

load_plugins(["my_file.py"])          # settings can name what it registers from here on
"""

import ast
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from .mistakes import ConfigError, RunError, one_line, out_of_memory

# Before the names of their modules: a plugin may have the name of any other module.
PREFIX = "plugin:"
COPIES = "plugins"  # the folder of a run that holds copies of its plugins
_PROJECT = "looplab."
_NAMES: dict[str, dict[str, Any]] = {}  # what was registered by added name, by setting
_TASKS: dict[str, dict[str, Any]] = {}  # added tasks: own settings with defaults
_Thing = TypeVar("_Thing")


class Slip(ConfigError):
    """A mistake in a user's class or function, or in what the class defines under a name: the file
    and the line of its definition, or another `place`, and the problem. One line."""

    def __init__(self, thing: Any, problem: str, name: str = "", place: str = "") -> None:
        called = getattr(getattr(thing, "func", thing), "__name__", repr(thing))
        called = "" if place else f"{called}.{name} " if name else f"{called} "
        super().__init__(f"{place or place_of(thing, name)}:", f"{called}{problem}")


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
    """An error as a line that names the plugin whose code raised it, or what that code called;
    empty where it was none."""
    place = _place(error)
    return f"{place}: {_with_kind(error)}" if place else ""


def is_users(thing: Any) -> bool:
    """Says whether a class or function was defined outside the project."""
    return not getattr(thing, "func", thing).__module__.startswith(_PROJECT)


def place_of(thing: Any, name: str = "") -> str:
    """'FILE, line N' of a function or class, or of what a user's class defines under a name; the
    file or module alone where its source is not to be had."""
    thing = getattr(thing, "func", thing)
    if isinstance(thing, type):
        owners = [each for each in thing.__mro__ if name in vars(each) and is_users(each)]
        thing = owners[0] if owners else thing
    try:
        file, (lines, first) = inspect.getsourcefile(thing), inspect.getsourcelines(thing)
        node = ast.parse(dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError):
        module = getattr(thing, "__module__", "")
        return str(getattr(sys.modules.get(module), "__file__", module))
    for part in getattr(node, "body", ()) if name else ():
        targets = [getattr(part, "target", None), *getattr(part, "targets", ())]
        if name in (getattr(part, "name", ""), *(getattr(each, "id", "") for each in targets)):
            node = part
    return f"{file}, line {first + node.lineno - 1}"


@contextmanager
def blamed(thing: Any, name: str = "") -> Iterator[None]:
    """Within this context an error of a user's class or function is a Slip, which names the line of
    his that raised it, else that of the definition."""
    try:
        yield
    except (ConfigError, RunError):
        raise
    except (Exception, SystemExit) as error:
        is_signal = isinstance(error, SystemExit) and error.code in (130, 143)
        if is_signal or out_of_memory(error) or not is_users(thing):
            raise
        place = _place(error)
        fails = "" if place else "fails with "
        raise Slip(thing, f"{fails}{_with_kind(error)}", name, place) from error


def registering(
    key: str, name: str, is_taken: bool, add: Callable[[_Thing], None]
) -> Callable[[_Thing], _Thing]:
    """The decorator that lets the setting `key` take the name of a class or function, and registers
    it by `add`; `is_taken`: the project has one of this name.

    Raises TypeError without a name, and Slip for one that is taken.
    """
    if not isinstance(name, str):
        raise TypeError('a name is missing, as in @register_…("mine")')

    def register(thing: _Thing) -> _Thing:
        if is_users(thing) or not is_taken:
            if is_taken:
                raise Slip(thing, f"must have another name: {key}={name} is the project's own")
            other = _NAMES.setdefault(key, {}).get(name)
            module = sys.modules.get(getattr(other, "__module__", ""))
            is_there = other and getattr(module, getattr(other, "__name__", ""), None) is other
            if is_there and other.__module__.startswith(PREFIX):
                raise Slip(thing, f"must have another name: {name} is that of {place_of(other)}")
            _NAMES[key][name] = thing
        add(thing)
        return thing

    return register


def check_class(cls: Any, base: type) -> None:
    """Raises Slip for a user's class that cannot stand for `base`: no subclass, without one of its
    methods, or with a value in its place. What they take and return is seen where it is tried."""
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise Slip(cls, f"must be a subclass of {base.__name__}")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise Slip(cls, f"must define {', '.join(missing)}")
    for name, method in vars(base).items():
        own = inspect.getattr_static(cls, name)
        if inspect.isfunction(method) and not (callable(own) or name.startswith("__")):
            problem = f"hides the method {name} of {base.__name__}: choose another name"
            raise Slip(cls, problem, name)


def added_names(key: str) -> list[str]:
    """The names that were added to a setting."""
    return [*_NAMES.get(key, ())]


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
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    if (folder := str(path.absolute().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports from beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        place = _place(error)
        if isinstance(error, SyntaxError):
            place = f"{error.filename}, line {error.lineno}"
        del sys.modules[name]
        if isinstance(error, Slip):
            raise
        problem = f"names {path}, which fails: {_with_kind(error)}"
        raise ConfigError("plugins", f"{problem} ({place})" if place else problem) from error


def _with_kind(error: BaseException) -> str:
    what = error.msg if isinstance(error, SyntaxError) else one_line(error)
    return f"{type(error).__name__}: {what}"


def _place(error: BaseException) -> str:
    """'FILE, line N' of the innermost call on an error's way in a plugin, or in a file beside one.
    Empty where there is none."""
    plugins = [each for name, each in sys.modules.items() if name.startswith(PREFIX)]
    folders, place = {Path(str(each.__file__)).parent for each in plugins}, ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
        is_ours = module == "__main__" or module.startswith(_PROJECT)
        if Path(file).parent in folders and not is_ours:
            place = f"{file}, line {line}"
    return place
