"""The source files that a number depends on, and a fingerprint of each, to recognise edited code.

sources_of("reloop.models.model")   # {"models/model.py": "1f0c…", "models/spec.py": …}

A file's fingerprint changes with its syntax tree, not with its comments, docstrings and layout. The
files are those of the named modules, and of all that they import from the same rooms.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from reloop.conf.checksum import key_of
from reloop.conf.plugins import PREFIX

_PROJECT = "reloop"
# Rooms whose imports are followed. The others only check, write, plot and print.
_ROOMS = ("reloop.tasks", "reloop.models", "reloop.curricula")
_SOLVERS = "reloop.evaluation.baselines."  # followed from solver to solver, not from callers
_KERNELS = "reloop.models.kernels"  # of the triton backend: followed from there, not from elsewhere


def sources_of(
    *modules: str, alone: tuple[str, ...] = (), also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Path (in the project; by the module's name outside) and fingerprint of these modules' files
    and of those that they import from the rooms of tasks, models, curricula and solvers, or,
    outside the project, from their own folder. The imports of modules in `alone` are not followed;
    `also` names further rooms that are."""
    fingerprints: dict[str, str] = {}
    for name in sorted({*alone, *_with_imports(modules, also)}):
        path = _file_of(name)
        if path is not None:
            fingerprints[_source_name(name, path)] = _fingerprint(path, path.stat().st_mtime_ns)
    return fingerprints


def outside_source(cls: type) -> str | None:
    """A fingerprint of the source of a class that was defined outside the project; None for a class
    of the project."""
    path = _file_of(cls.__module__)
    if path is not None:
        return None if _is_own(cls.__module__) else key_of(sources_of(cls.__module__))
    try:
        text = inspect.getsource(cls)
    except (OSError, TypeError):  # defined in a shell without source
        codes = (getattr(value, "__code__", None) for value in vars(cls).values())
        text = repr([(code.co_code, code.co_consts, code.co_names) for code in codes if code])
    return key_of({cls.__qualname__: hashlib.sha256(text.encode()).hexdigest()})


def is_current(sources: Mapping[str, str]) -> bool:
    """Whether the project's files have these fingerprints today."""
    home = Path(__file__).parents[2]
    paths = {name: home / name for name in sources}
    return all(
        path.exists() and _fingerprint(path, path.stat().st_mtime_ns) == sources[name]
        for name, path in paths.items()
    )


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The files whose fingerprints differ, or that only one of the two has."""
    return sorted(path for path in {**before, **now} if before.get(path) != now.get(path))


def _with_imports(modules: tuple[str, ...], also: tuple[str, ...]) -> set[str]:
    pending, names = list(modules), set[str]()
    while pending:
        name = pending.pop()
        if name in names:
            continue
        names.add(name)
        path = _file_of(name)
        if path is not None:
            imported = _imports(name, path, path.stat().st_mtime_ns)
            pending += [each for each in imported if _is_source(each, name, modules, also)]
    return names


def _is_source(name: str, importer: str, roots: tuple[str, ...], also: tuple[str, ...]) -> bool:
    """Whether a module that `importer` imports belongs to the sources of these roots."""
    if any(_within(name, room) for room in (*_ROOMS, *also)):
        return not _within(name, _KERNELS) or any(_within(root, _KERNELS) for root in roots)
    if name.startswith(_SOLVERS):
        return importer.startswith(_SOLVERS)
    path = _file_of(name)
    if path is None or _is_own(name):
        return False
    outside_roots = {root: file for root in roots if (file := _file_of(root)) and not _is_own(root)}
    if any(name.partition(".")[0] == root.partition(".")[0] for root in outside_roots):
        return True
    if _is_installed(path):  # also if the environment is in the user's folder
        return False
    return any(path.is_relative_to(file.parent) for file in outside_roots.values())


def _is_own(module: str) -> bool:
    return _within(module, _PROJECT)


@cache
def _is_installed(path: Path) -> bool:
    """Whether a file belongs to an installed package or to Python's library."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib"))


def _within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


@cache
def _imports(name: str, path: Path, mtime: int) -> tuple[str, ...]:
    """The modules that a module imports, anywhere in it; for a name that a package re-exports, the
    module that defines it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    modules: list[str] = []
    try:
        tree = _syntax_tree(path, mtime)
    except SyntaxError:  # being edited since its import
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute_name(package, node)
            modules += [_defining_module(base, alias.name) for alias in node.names]
    return tuple(modules)


def _absolute_name(package: str, node: ast.ImportFrom) -> str:
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _defining_module(module: str, name: str, depth: int = 8) -> str:
    """The module that defines the name of `from module import name`."""
    path = _file_of(module)
    if path is None or path.name != "__init__.py" or not depth:
        return module
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    for node in ast.walk(_syntax_tree(path, path.stat().st_mtime_ns)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defining_module(_absolute_name(module, node), alias.name, depth - 1)
    return module


@cache
def _file_of(module: str) -> Path | None:
    """The Python file of a module, without importing it; None where it has none."""
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        try:
            spec = find_spec(module)
        except (ImportError, AttributeError, ValueError):
            return None
        origin = spec.origin if spec else None
    path = Path(origin) if origin else None
    return path if path is not None and path.suffix == ".py" and path.exists() else None


def _source_name(module: str, path: Path) -> str:
    """A file's path by its module's name, relative to the project if it is part of it: the same in
    a checkout and in an installation."""
    name = module.removeprefix(f"{_PROJECT}.").removeprefix(PREFIX).replace(".", "/")
    return f"{name}/__init__.py" if path.name == "__init__.py" else f"{name}.py"


@cache
def _syntax_tree(path: Path, mtime: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _fingerprint(path: Path, mtime: int) -> str:
    """The fingerprint of a file with this modification time."""
    try:
        parts = "\0".join(_content(_syntax_tree(path, mtime)))
    except SyntaxError:  # being edited: it cannot be imported either
        parts = path.read_text(encoding="utf-8", errors="replace")
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _content(node: ast.AST) -> Iterator[str]:
    """The content of a syntax tree, the same for all versions of Python: empty fields are skipped,
    since later versions add some."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list):
            value = _without_docstring(node, value)
        if value is None or value == [] or name in ("ctx", "kind", "type_comment"):
            continue
        yield name
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _content(item)
            else:
                yield repr(item)
    yield ")"


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if not isinstance(node, kinds) or ast.get_docstring(node, clean=False) is None:
        return body
    return body[1:]
