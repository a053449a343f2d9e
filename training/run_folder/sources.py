"""The source files that weights or numbers depend on, and a digest of each, to recognise edited
code.

sources_of("tasks", "models")           # {"models/model.py": "tokens:1f0c…", "tasks/linear.py": …}
measured_by(model_errors, Linear)       # {"evaluation/errors.py": "tokens:77ab…", …}

Weights depend on all files of the rooms that train, whatever a run uses of them; a number on what
the function that measures it imports. Of a user's code counts what it calls, in files, by their
names, and in a notebook's cells.
"""

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from looplab.conf.checksum import key_of
from looplab.conf.digest import TOKENS, code_digest, digest_of_kind, kind_of
from looplab.conf.imports import HOME, file_of, imported_files, is_installed, project_files
from looplab.conf.plugins import user_code

from .cells import has_source, reached

_PROJECT = "looplab."
CELLS = "cells"  # stands for a notebook's among the files
KERNELS = "models/kernels"  # for the backend triton alone
TRAINED = ("tasks", "models", "curricula", "training")  # what weights depend on
# Tasks and models are called by their names, as settings have them: all of them count.
_CALLED_BY_NAME = ("tasks", "models")
OTHER_CODE = "trained by other code: "  # a remark on a run begins so
# What is registered by these measures trained models.
_MEASURING = ("register_baseline", "register_shift", "register_target")


def sources_of(
    *rooms: str, things: Iterable[Any] = (), for_training: bool = False
) -> dict[str, str]:
    """Path and digest of the Python files in these folders of the project, or of single files. The
    same of the code of these classes, functions and modules, where they are a user's.

    `for_training`: of a user's files what bears on training alone, without the baselines, shifts
    and targets that they register.
    """
    digests = {name: _digest_of(path) for name, path in _files(rooms).items()}
    return dict(sorted((digests | _outside(things, for_training)).items()))


def measured_by(*things: Any) -> dict[str, str]:
    """Path and digest of the files that a number depends on which these functions, classes and
    modules measure: of the project all tasks and models, and what the modules of these things
    import up to the rooms conf and show; of a user's code what it calls, and what that imports of
    the project."""
    modules = {_module_of(thing) for thing in things}
    own = sorted(name.removeprefix(_PROJECT) for name in modules if name.startswith(_PROJECT))
    others = [thing for thing in things if not _module_of(thing).startswith(_PROJECT)]
    paths = [file_of(name) for thing in others for name in outside_modules(thing)]
    users = [file for path in paths if path for file in imported_files(path).values()]
    files = _files(_CALLED_BY_NAME) | project_files(own, users)
    digests = {name: _digest_of(path) for name, path in files.items()}
    return dict(sorted((digests | _outside(others)).items()))


def _outside(things: Iterable[Any], for_training: bool = False) -> dict[str, str]:
    """The digests of a user's code of these classes, functions and modules."""
    digests: dict[str, str] = {}
    for thing in things:
        for name, content in outside_code(thing).items():
            bearing = training_part(content) if for_training else content
            digests[name] = code_digest(bearing)
        if _is_in_cell(thing):
            definitions, _ = reached(thing)
            digests[CELLS] = key_of([digests.get(CELLS), definitions])
    return digests


def changed_code(
    record: Mapping[str, Any], user_code: Mapping[str, bytes], cells: str = ""
) -> list[str]:
    """The files in which the code that a run's `record` names, or any part of the run, differs from
    today's; of the user's files those that the record names count. `cells`: the digest of a
    notebook's, which are not compared without one."""
    changed: set[str] = set()
    for session in (record, *record.get("continued", [])):
        before: dict[str, str] = session.get("sources", {})
        if not before:
            continue
        # Of each session its own backend: a run may have begun on a CPU and gone on on a GPU.
        rooms = (*TRAINED, KERNELS) if session.get("backend") == "triton" else TRAINED
        kinds = {name: kind_of(digest) for name, digest in before.items()}
        now = {}
        for name, path in _files(rooms).items():
            now[name] = _digest_of(path, kinds.get(name, TOKENS))
        for name, content in user_code.items():
            # A user's file that the run did not know then, as for evaluations, changes nothing.
            if name in before:
                now[name] = digest_of_kind(kinds[name], training_part(content))
        if CELLS in before:
            now[CELLS] = cells or before[CELLS]
        names = before.keys() | now.keys()
        changed |= {name for name in names if before.get(name) != now.get(name)}
    return sorted(changed)


def outside_source(cls: type) -> str | None:
    """A digest of what bears on training in the source of a class that was defined outside the
    project; None for a class of the project."""
    if cls.__module__.startswith(_PROJECT):
        return None
    if _is_in_cell(cls) and not has_source(cls):
        raise OSError(f"{cls.__qualname__} has no source: define it in a file or in a notebook")
    return key_of(sources_of(things=[cls], for_training=True))


def outside_code(thing: Any) -> dict[str, bytes]:
    """The content of the user's files that hold a class, function or module and what it imports, by
    their names; of one in a notebook's cell those of the modules that it calls."""
    contents: dict[str, bytes] = {}
    for name in outside_modules(thing):
        contents |= user_code(name)
    return contents


def outside_modules(thing: Any) -> list[str]:
    """The names of these modules."""
    if not _is_in_cell(thing):
        return [_module_of(thing)]
    _, called = reached(thing)
    return [name for name in called if not is_installed(file_of(name) or Path())]


def _module_of(thing: Any) -> str:
    """The name of the module that is, or that defines, a thing."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    return str(getattr(thing, "func", thing).__module__)


def _is_in_cell(thing: Any) -> bool:
    """Says whether a thing is defined in a notebook's cell, whose module has no file."""
    module = _module_of(thing)
    return file_of(module) is None and not user_code(module)


@cache
def _files(rooms: tuple[str, ...]) -> dict[str, Path]:
    """The Python files in these folders of the project, or single files, by their paths in it."""
    kernels = set((HOME / KERNELS).rglob("*.py"))
    files: set[Path] = set()
    for room in rooms:
        if room.endswith(".py"):
            files.add(HOME / room)
        elif room == KERNELS:
            files |= kernels
        else:
            files |= set((HOME / room).rglob("*.py")) - kernels
    return {path.relative_to(HOME).as_posix(): path for path in sorted(files)}


def _digest_of(path: Path, kind: str = TOKENS) -> str:
    # The time is a part of the cache's key, so that an edited file is read again.
    return _digest(path, path.stat().st_mtime_ns, kind)


@cache
def _digest(path: Path, mtime: int, kind: str) -> str:
    """The digest of a file with this modification time."""
    return digest_of_kind(kind, path.read_bytes())


def training_part(content: bytes) -> bytes:
    """The lines of a module that are not blank, without what it registers to measure by, unless
    other lines name that; all of them where it registers nothing of the kind."""
    try:
        nodes = ast.parse(content).body
    except SyntaxError:  # being edited since its import
        return content
    measuring = [node for node in nodes if _measures(node)]
    names: set[str] = set()
    for statement in nodes:
        if statement not in measuring:
            parts = ast.walk(statement)
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    left_out: set[int] = set()
    for statement in measuring:
        if getattr(statement, "name", "") not in names:
            # A decorator stands above the line of its function or class.
            decorators = getattr(statement, "decorator_list", ())
            first = min((node.lineno for node in decorators), default=statement.lineno)
            left_out.update(range(first, (statement.end_lineno or 0) + 1))
    numbered = enumerate(content.splitlines(), start=1)
    kept = [line for number, line in numbered if number not in left_out and line.strip()]
    return b"\n".join(kept) if left_out else content


def _measures(node: ast.stmt) -> bool:
    """Says whether a statement registers a baseline, a shift or a target."""
    for call in getattr(node, "decorator_list", [getattr(node, "value", None)]):
        if isinstance(call, ast.Call):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name in _MEASURING:
                return True
    return False
