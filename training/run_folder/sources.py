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
from typing import Any

from looplab.conf.checksum import key_of

_HOME = Path(__file__).parents[2]
_PROJECT = "looplab."
KERNELS = "models/kernels"  # for the backend triton alone
TRAINED = ("tasks", "models", "curricula", "training")  # what weights depend on
EVALUATED = (*TRAINED, "evaluation")  # what errors depend on
OTHER_CODE = "trained by other code: "  # a remark on a run begins so
# What is registered by these measures trained models.
_MEASURING = ("register_baseline", "register_shift", "register_target")


def sources_of(
    *rooms: str, plugins: Iterable[str] = (), for_training: bool = False
) -> dict[str, str]:
    """Path and digest of the Python files in these folders of the project, or of single files, and
    of those of these modules that are not the project's; of these only what bears on training,
    `for_training`: not the baselines, shifts and targets that they register."""
    own = (path for module in plugins for path in outside_files(module))
    files = {path.relative_to(_HOME).as_posix(): path for room in rooms for path in _files(room)}
    digests = {name: _digest(path, path.stat().st_mtime_ns, False) for name, path in files.items()}
    return dict(sorted((digests | _digests(own, for_training)).items()))


def _digests(files: Iterable[Path], for_training: bool) -> dict[str, str]:
    """Name and digest of the user's files."""
    return {path.name: _digest(path, path.stat().st_mtime_ns, for_training) for path in files}


def changed_code(record: Mapping[str, Any], plugins: Iterable[Path]) -> list[str]:
    """The files in which the code that a run's `record` names, or any part of the run, differs from
    today's; `plugins` are those of the user, of which those that the record names count."""
    own, changed = _digests(plugins, for_training=True), set[str]()
    for part in (record, *record.get("continued", [])):
        if "sources" in part:
            before: dict[str, str] = part["sources"]
            rooms = (*TRAINED, KERNELS) if part.get("backend") == "triton" else TRAINED
            now = sources_of(*rooms) | {name: own[name] for name in own if name in before}
            names = before.keys() | now.keys()
            changed |= {name for name in names if before.get(name) != now.get(name)}
    return sorted(changed)


def outside_source(cls: type) -> str | None:
    """A digest of what bears on training in the source of a class that was defined outside the
    project; None for a class of the project."""
    if cls.__module__.startswith(_PROJECT):
        return None
    if files := sources_of(plugins=[cls.__module__], for_training=True):
        return key_of(files)
    # A notebook's cells, which are found by the methods alone; a plain shell has none.
    cells = {each.__code__.co_filename for each in vars(cls).values() if inspect.isfunction(each)}
    if not (text := "".join(line for cell in sorted(cells) for line in getlines(cell))):
        raise OSError(f"{cls.__qualname__} has no source: define it in a file or in a notebook")
    return key_of({cls.__qualname__: hashlib.sha256(text.encode()).hexdigest()})


@cache
def _files(room: str) -> list[Path]:
    if room.endswith(".py"):
        return [_HOME / room]
    kernels = set() if room == KERNELS else {*(_HOME / KERNELS).rglob("*.py")}
    return sorted({*(_HOME / room).rglob("*.py")} - kernels)


def outside_files(module: str) -> list[Path]:
    """The file of a module from outside the project, and those that it imports from beside it."""
    origin = getattr(sys.modules.get(module), "__file__", None)
    return [] if module.startswith(_PROJECT) or origin is None else with_imports(Path(origin))


def with_imports(path: Path) -> list[Path]:
    """A file of the user's, if it is there, and those that it imports from beside it."""
    pending, found = [path], list[Path]()
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
def _digest(path: Path, mtime: int, for_training: bool) -> str:
    """The digest of a file with this modification time, or of its part that bears on training."""
    content = path.read_bytes()
    if for_training:
        content = _without_measuring(content)
    return hashlib.sha256(content).hexdigest()[:16]


def _without_measuring(content: bytes) -> bytes:
    """The lines of a module that are not blank, without what it registers to measure by, unless
    other lines name that; all of them where it registers nothing of the kind."""
    try:
        nodes = ast.parse(content).body
    except SyntaxError:  # being edited since its import
        return content
    measuring = [node for node in nodes if _measures(node)]
    others = (part for node in nodes if node not in measuring for part in ast.walk(node))
    names = {part.id for part in others if isinstance(part, ast.Name)}
    left_out: set[int] = set()
    for node in measuring:
        if getattr(node, "name", "") not in names:
            lines = [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]
            left_out |= {*range(min(lines), (node.end_lineno or 0) + 1)}
    numbered = enumerate(content.splitlines(), start=1)
    kept = [line for number, line in numbered if number not in left_out and line.strip()]
    return b"\n".join(kept) if left_out else content


def _measures(node: ast.stmt) -> bool:
    """Says whether a statement registers a baseline, a shift or a target."""
    calls = [*getattr(node, "decorator_list", ()), getattr(node, "value", None)]
    called = [call.func for call in calls if isinstance(call, ast.Call)]
    return any(getattr(each, "attr", getattr(each, "id", "")) in _MEASURING for each in called)
