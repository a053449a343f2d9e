"""Files of the user, which register tasks, baselines, ways to loop, shifts and probe targets.

load_plugins(["my_file.py"])          # settings can name what it registers from here on
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from .digest import code_digest
from .imports import file_of, imported_code, imported_files
from .mistakes import ConfigError, RunError, one_line, out_of_memory

# Before the names of their modules: a plugin may have the name of any other module.
PREFIX = "plugin:"
COPIES = "plugins"  # the folder of a run that holds copies of its plugins
_PROJECT = "looplab."
# The settings that plugins add names to.
_EXTENSIBLE = ("task", "model.injection", "evaluation.baselines", "evaluation.shifts")
_NAMES: dict[str, dict[str, Any]] = {}  # what was registered by added name, by setting
# How it was registered, by setting and name.
_ADD: dict[tuple[str, str], Callable[[Any], None]] = {}
_LOADED: dict[str, dict[str, bytes]] = {}  # a user's files when they were loaded, by module
_SEEN: dict[Path, tuple[ModuleSpec, bytes]] = {}  # other files, when they were first asked for
_FOLDERS: dict[str, str] = {}  # what a plugin's module added to sys.path
_TASKS: dict[str, dict[str, Any]] = {}  # added tasks: own settings with defaults
_WRITTEN: dict[type, dict[str, Any]] = {}  # what a guarded class defined before
# Modules that plugins were taught to import, and where their names are now.
_MOVED = {
    "looplab.evaluation.baselines.bayes": "looplab.tasks.posteriors",
    "looplab.evaluation.baselines.linear": "looplab.evaluation.baselines",
    "looplab.evaluation.panel": "looplab.show.panel",
    "looplab.experiments.runs_table": "looplab.evaluation.runs_table",
    "looplab.experiments.statistics": "looplab.evaluation.statistics",
}
_Thing = TypeVar("_Thing")


class Slip(ConfigError):
    """A mistake in a user's class or function, or in what the class defines under a name: the file
    and the line of its definition, or another `place`, and the problem. One line."""

    def __init__(self, thing: Any, problem: str, name: str = "", place: str = "") -> None:
        called = getattr(getattr(thing, "func", thing), "__name__", repr(thing))
        called = "" if place else f"{called}.{name} " if name else f"{called} "
        super().__init__(f"{place or place_of(thing, name)}:", f"{called}{problem}")


def load_plugins(paths: Iterable[str], edited_too: bool = False) -> None:
    """Import files, each name once in a process; with `edited_too` again where the code was edited
    since, or is that of another file of the name. A file that has only moved since its first import
    is not imported again.

    Raises ConfigError for a file that does not exist, or cannot be imported.
    """
    files = [Path(path) for path in paths]
    names = [path.stem for path in files]
    for path in files:
        if names.count(path.stem) > 1:
            raise ConfigError("plugins", f"names two files {path.name}: rename one")
        module = PREFIX + path.stem
        if module not in sys.modules:
            _load(path)
        elif edited_too and (edited := edited_files(module)):
            print(f"plugins: {path.name} is loaded again; edited: {', '.join(edited)}")
            _load_again(path)
        elif edited_too and _is_of_other_code(path, module):
            print(f"plugins: {path} takes the place of {sys.modules[module].__file__}")
            _load_again(path)


def user_code(module: str) -> dict[str, bytes]:
    """Return the content of the user's files that hold a module and what it imports, by their
    names; none for a module of the project, or without a file.

    It is that of the time when the module was loaded as a plugin or something in it registered.
    Otherwise that of the first call."""
    return _LOADED.get(module) or _code_first_seen(module)


def _code_first_seen(module: str) -> dict[str, bytes]:
    """The content of a module's files as it was when it was first asked for after the import of
    each, or the latest importlib.reload, which makes another spec."""
    files = {getattr(loaded, "__file__", None): loaded for loaded in list(sys.modules.values())}
    contents = _code_of(module)
    for name, path in _files_of(module).items():
        spec = getattr(files.get(str(path)), "__spec__", None)
        if spec is None:  # not imported yet
            continue
        seen, content = _SEEN.get(path, (spec, contents[name]))
        if seen is spec:
            contents[name] = content
        _SEEN[path] = (spec, contents[name])
    return contents


def edited_files(module: str) -> list[str]:
    """Return the names of the files of `user_code` that were edited since."""
    now = _code_of(module)
    before = user_code(module) if now else {}
    return [name for name, content in before.items() if _is_edited(content, now.get(name, b""))]


def _is_of_other_code(path: Path, module: str) -> bool:
    """Says whether a plugin's module was loaded from another file, with other code."""
    loaded = sys.modules.get(module)
    if loaded is None or not path.is_file() or str(path.absolute()) == loaded.__file__:
        return False
    now = imported_code(path)
    before = user_code(module)
    names = now.keys() | before.keys()
    return any(_is_edited(before.get(name, b""), now.get(name, b"")) for name in names)


def _is_edited(before: bytes, now: bytes) -> bool:
    return before != now and code_digest(before) != code_digest(now)


def _code_of(module: str) -> dict[str, bytes]:
    """The content of a module's files as it is."""
    return {name: path.read_bytes() for name, path in _files_of(module).items()}


def _files_of(module: str) -> dict[str, Path]:
    """The user's files that hold a module and what it imports, by their names."""
    path = file_of(module)
    if path is None or f"{module}.".startswith(_PROJECT):
        return {}
    return imported_files(path, "" if module.startswith(PREFIX) else module)


def _load_again(path: Path) -> None:
    """Import a plugin anew, with what it imports of a user's files; where that fails, what was
    loaded stays."""
    module = PREFIX + path.stem
    file = str(sys.modules[module].__file__)
    files = {file, *map(str, imported_files(Path(file)).values())}
    modules = [(name, loaded) for name, loaded in sys.modules.items() if name != "__main__"]
    # Its own module and those of the user's that it imports: Python would not import these again.
    before = {n: loaded for n, loaded in modules if getattr(loaded, "__file__", None) in files}
    for name in before:
        del sys.modules[name]
    code = _LOADED.pop(module, {})
    folder = _leave_folder(module)  # files beside the new one may have the same names
    registered = {key: dict(things) for key, things in _NAMES.items()}
    try:
        _load(path)
    except ConfigError:
        _leave_folder(module)
        if folder:
            sys.path.append(folder)
            _FOLDERS[module] = folder
        sys.modules.update(before)
        for key, things in registered.items():
            for name, thing in things.items():
                if _NAMES[key][name] is not thing:  # by the part of the file that did run
                    _NAMES[key][name] = thing
                    _ADD[key, name](thing)
        _LOADED[module] = code
        raise


def _leave_folder(module: str) -> str:
    """Take the folder that a plugin's module added to sys.path from it, and return it; empty where
    it added none."""
    folder = _FOLDERS.pop(module, "")
    if folder in sys.path:
        sys.path.remove(folder)
    return folder


def failure(error: BaseException) -> str:
    """An error as a line that names the plugin whose code raised it, or what that code called; or
    the plugins, which may have returned what raised it later. Empty where there are none."""
    message = _with_kind(error)
    path = _place(error)
    if path:
        return f"{path}: {message}"
    if not (files := _files()):
        return ""
    place = _place(error, any_code=True)
    code = ", ".join(files)
    return f"{message} ({place}); see what the code in {code} returns"


def is_users(thing: Any) -> bool:
    """Says whether a class or function was defined outside the project."""
    return not getattr(thing, "func", thing).__module__.startswith(_PROJECT)


def place_of(thing: Any, name: str = "") -> str:
    """'FILE, line N' of a function or class, or of what a user's class defines under a name; the
    file or module alone where its source is not to be had."""
    thing = getattr(thing, "func", thing)
    if isinstance(thing, type):
        owners = [cls for cls in thing.__mro__ if name in written_in(cls) and is_users(cls)]
        thing = owners[0] if owners else thing
    try:
        file = inspect.getsourcefile(thing)
        lines, first = inspect.getsourcelines(thing)
        node = ast.parse(dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError):
        module = getattr(thing, "__module__", "")
        return str(getattr(sys.modules.get(module), "__file__", module))
    if isinstance(node, ast.ClassDef) and name:
        for statement in node.body:
            if name in _defined_names(statement):
                node = statement
    # The source is parsed by itself, where its first line is 1.
    return f"{file}, line {first + node.lineno - 1}"


def _defined_names(statement: Any) -> list[str]:
    """The names that a function, a class or an assignment defines."""
    if hasattr(statement, "name"):
        return [statement.name]
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [getattr(target, "id", "") for target in targets]


@contextmanager
def blamed(thing: Any, name: str = "") -> Iterator[None]:
    """Within this context an error of a user's class or function is a Slip. It names the line of
    his that raised it, else that of the definition."""
    try:
        yield
    except (ConfigError, RunError):
        raise
    except (Exception, SystemExit) as error:
        # The exit codes of Ctrl-C and SIGTERM, which are no mistakes of the user's code.
        is_signal = isinstance(error, SystemExit) and error.code in (130, 143)
        if is_signal or out_of_memory(error) or not is_users(thing):
            raise
        place = _place(error)
        fails = "" if place else "fails with "
        raise Slip(thing, f"{fails}{_with_kind(error)}", name, place) from error


def guard(cls: type, names: Iterable[str]) -> None:
    """Let an error in these methods of a user's class be a Slip, wherever they are called. The
    class stays the same one, and so do its subclasses, its instances and their pickles."""
    if cls in _WRITTEN:  # under another name
        return
    _WRITTEN[cls] = dict(vars(cls))
    for name in names:
        setattr(cls, name, _guarded(cls, name))


def _guarded(cls: type, name: str) -> Any:
    """The method of the class, own or inherited, in whose calls the class is blamed."""
    written = _WRITTEN[cls].get(name)
    if written is None:

        @wraps(getattr(cls, name))
        def inherited(self: Any, *arguments: Any, **settings: Any) -> Any:
            with blamed(cls, name):
                # The next class in the order of self's: a subclass may have another after this one.
                return getattr(super(cls, self), name)(*arguments, **settings)

        return inherited
    method = getattr(cls, name)

    @wraps(method)
    def own(*arguments: Any, **settings: Any) -> Any:
        with blamed(cls, name):
            return method(*arguments, **settings)

    # A static method, or another callable under the name, is not called with the instance.
    return own if inspect.isfunction(written) else staticmethod(own)


def written_in(cls: type) -> Mapping[str, Any]:
    """What the code of a class defines, by name: its contents without guards."""
    return _WRITTEN.get(cls, vars(cls))


def registering(
    key: str,
    name: str,
    is_taken: bool,
    add: Callable[[_Thing], None],
    guards: Sequence[str] = (),
) -> Callable[[_Thing], _Thing]:
    """The decorator that lets the setting `key` take the name of a class or function, and registers
    it by `add`; `is_taken`: the project has one of this name; `guards`: the methods of a user's
    class to `guard`.

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
            # A class that its module no longer has, as after a second load, leaves its name free.
            is_there = other and getattr(module, getattr(other, "__name__", ""), None) is other
            if is_there and other.__module__.startswith(PREFIX):
                raise Slip(thing, f"must have another name: {name} is that of {place_of(other)}")
            _NAMES[key][name] = thing
            _ADD[key, name] = add
            if is_users(thing):
                module_name = getattr(thing, "func", thing).__module__
                _LOADED[module_name] = _code_of(module_name)
        add(thing)
        if guards and is_users(thing):
            guard(thing if isinstance(thing, type) else type(thing), guards)
        return thing

    return register


def check_class(cls: Any, base: type) -> None:
    """Raises Slip for a user's class that cannot stand for `base`: no subclass, without one of its
    methods, or with another kind of thing, or of arguments, under the name of a method."""
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise Slip(cls, f"must be a subclass of {base.__name__}")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise Slip(cls, f"must define {', '.join(missing)}")
    for name, method in vars(base).items():
        attribute = inspect.getattr_static(cls, name)
        if attribute is method or name.startswith("__"):
            continue
        problem = ""
        if isinstance(method, property) and inspect.isfunction(attribute):
            problem = "needs @property above it"
        elif inspect.isfunction(method) and not callable(attribute):
            problem = f"hides the method {name} of {base.__name__}: choose another name"
        elif inspect.isfunction(method) and inspect.isfunction(attribute):
            arguments = inspect.signature(method).parameters
            try:
                # As many arguments by place as the base class's method has.
                inspect.signature(attribute).bind(*arguments)
            except TypeError:
                problem = f"must take ({', '.join(arguments)})"
        if problem:
            raise Slip(cls, problem, name)


def added_names(key: str) -> list[str]:
    """The names that were added to a setting."""
    return list(_NAMES.get(key, ()))


def of_a_plugin(key: str) -> str:
    """The hint for a name that `key` does not take: how one of a plugin is found, where none was
    loaded. Empty for a setting that plugins add no names to."""
    return " (one of a plugin wants plugins=FILE.py)" if key in _EXTENSIBLE and not _files() else ""


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
    _keep_moved(path)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    # Known before it runs, as imports do it: dataclasses look their own module up there.
    module = sys.modules[name] = module_from_spec(spec)
    if (folder := str(path.absolute().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports from beside it
        _FOLDERS[name] = folder
    try:
        spec.loader.exec_module(module)
        _LOADED[name] = _code_of(name)
    except (Exception, SystemExit) as error:
        place = _place(error)
        if isinstance(error, SyntaxError):
            place = f"{error.filename}, line {error.lineno}"
        del sys.modules[name]
        if isinstance(error, Slip):
            raise
        problem = f"names {path}, which fails: {_with_kind(error)}"
        raise ConfigError("plugins", f"{problem} ({place})" if place else problem) from error


def _keep_moved(path: Path) -> None:
    """Let a plugin import what has moved under its old name, and print the new one."""
    code = path.read_bytes()
    for old, new in _MOVED.items():
        if old.encode() in code:
            print(f"{path}: {old} is {new} now, or import its names from looplab", flush=True)
            sys.modules[old] = import_module(new)


def _with_kind(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else one_line(error)
    return f"{type(error).__name__}: {message}"


def _files() -> list[str]:
    """The files of the plugins that are imported."""
    modules = sys.modules.items()
    return [str(module.__file__) for name, module in modules if name.startswith(PREFIX)]


def _is_another(path: Path) -> bool:
    """Says whether an import of a file's name would get another module."""
    try:
        spec = find_spec(path.stem)
    except (ImportError, ValueError):  # a part of no package, the module of a shell
        return path.stem in sys.modules
    return spec is not None and (not spec.origin or Path(spec.origin).resolve() != path.resolve())


def _place(error: BaseException, any_code: bool = False) -> str:
    """'FILE, line N' of the innermost call on an error's way in a plugin, or in a file beside one;
    with `any_code` in any file. Empty where there is none."""
    place = ""
    trace = error.__traceback__
    folders = {Path(file).parent for file in _files()}
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = trace.tb_frame.f_globals.get("__name__")
        is_beside = Path(file).parent in folders and module != "__main__"
        if any_code or (is_beside and not str(module).startswith(_PROJECT)):
            place = f"{file}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
