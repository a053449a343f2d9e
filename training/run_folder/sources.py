"""The source files that a number depends on, and a digest of each, to recognise edited code.

sources_of("tasks", "models")           # {"models/model.py": "1f0c…", "tasks/linear.py": …}

All files of a room count, whatever a run uses of them; a user's own files count by their name.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from linecache import getlines
from pathlib import Path

from looplab.conf.checksum import key_of

_HOME = Path(__file__).parents[2]
_PROJECT = "looplab."
KERNELS = "models/kernels"  # for the backend triton alone
TRAINED = ("tasks", "models", "curricula", "training")  # what weights depend on
EVALUATED = (*TRAINED, "evaluation")  # what errors depend on


def sources_of(*rooms: str, plugins: Iterable[str] = ()) -> dict[str, str]:
    """Path and digest of the Python files in these folders of the project, or of single files, and
    of those of these modules that are not the project's."""
    files = {path.relative_to(_HOME).as_posix(): path for room in rooms for path in _files(room)}
    for module in plugins:
        files |= {path.name: path for path in _outside(module)}
    return {name: _digest(path, path.stat().st_mtime_ns) for name, path in sorted(files.items())}


def outside_source(cls: type) -> str | None:
    """A digest of the source of a class that was defined outside the project; None for a class of
    the project."""
    if cls.__module__.startswith(_PROJECT):
        return None
    if files := sources_of(plugins=[cls.__module__]):
        return key_of(files)
    # A notebook's cells, which are found by the methods alone; a plain shell has none.
    cells = {each.__code__.co_filename for each in vars(cls).values() if inspect.isfunction(each)}
    if not (text := "".join(line for cell in sorted(cells) for line in getlines(cell))):
        raise OSError(f"{cls.__qualname__} has no source: define it in a file or in a notebook")
    return key_of({cls.__qualname__: hashlib.sha256(text.encode()).hexdigest()})


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The files whose digests differ, or that only one of the two has."""
    return sorted(path for path in {**before, **now} if before.get(path) != now.get(path))


@cache
def _files(room: str) -> list[Path]:
    if room.endswith(".py"):
        return [_HOME / room]
    kernels = set() if room == KERNELS else {*(_HOME / KERNELS).rglob("*.py")}
    return sorted({*(_HOME / room).rglob("*.py")} - kernels)


def _outside(module: str) -> list[Path]:
    """The file of a module from outside the project, and those that it imports from beside it."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    if module.startswith(_PROJECT) or origin is None:
        return []
    pending, found = [Path(origin)], list[Path]()
    while pending:
        path = pending.pop()
        if path in found or not path.is_file():
            continue
        found.append(path)
        try:
            nodes = list(ast.walk(ast.parse(path.read_bytes())))
        except SyntaxError:  # being edited since its import
            continue
        imports = [node for node in nodes if isinstance(node, ast.Import)]
        names = {alias.name for node in imports for alias in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        pending += [path.with_name(f"{name}.py") for name in sorted(names)]
    return found


@cache
def _digest(path: Path, mtime: int) -> str:
    """The digest of a file with this modification time."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
