"""What a module imports, directly or through others: of a user's files, wherever they stand, and of
the project's own.

imported_code(Path("waves.py"))         # {"waves.py": b"…", "shapes/sines.py": b"…"}
project_files(["evaluation.errors"])    # {"evaluation/errors.py": Path(…), "models/model.py": …}

From a user's file the project, installed packages and the standard library are not followed.
"""

import ast
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .public import MODULES

HOME = Path(__file__).parents[1]
_PROJECT = "looplab"
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = Path(sysconfig.get_path("stdlib"))
# What bears on no number: settings stand in requests, pictures are made of numbers, and kernels
# compute what PyTorch does.
_ENDS = ("conf/", "show/", "models/kernels/")
# What these files import is called by its name, as a setting has it.
_BY_NAME = ("evaluation/baselines/__init__.py",)


def file_of(module: str) -> Path | None:
    """Return the file of an imported module; None without one, as of a notebook's cells."""
    name = getattr(sys.modules.get(module), "__file__", None)
    path = Path(name or "")
    return path if path.is_file() else None


def imported_code(path: Path, module: str = "") -> dict[str, bytes]:
    """Return the content of a file of the user's, if it is there, and of all that it imports.

    Their names are their paths below the folders that they are imported from.

    `module` is the dotted name under which the file is imported, where that is not its own name.
    """
    return {name: file.read_bytes() for name, file in imported_files(path, module).items()}


def imported_files(path: Path, module: str = "") -> dict[str, Path]:
    """Return these files themselves, by the same names."""
    path = path.absolute()
    root = path.parents[_depth(path, module)]
    pending = _packages(path, root)
    pending.append(path)
    files: dict[str, Path] = {}
    while pending:
        path = pending.pop()
        name = _name(path, root)
        if name not in files and path.is_file():
            files[name] = path
            pending += _imports(path, root)
    return dict(sorted(files.items()))


def project_files(modules: Iterable[str], users: Iterable[Path] = ()) -> dict[str, Path]:
    """Return files of the project by their paths in it: those of `modules` ("evaluation.errors"),
    those that files of `users` import, and what all these import. Imports end at the rooms conf and
    show; those for types alone do not count."""
    pending = [path for module in modules for path in _module_files(module, [HOME])]
    pending += [path for user in users for path in _project_imports(user, _mtime(user))]
    files: dict[str, Path] = {}
    while pending:
        path = pending.pop()
        name = path.relative_to(HOME).as_posix()
        if name in files or name.startswith(_ENDS):
            continue
        files[name] = path
        # This file imports every solver, and a number depends on those alone that were asked for.
        if name not in _BY_NAME:
            pending += _project_imports(path, _mtime(path))
    return dict(sorted(files.items()))


@cache
def _project_imports(path: Path, mtime: int) -> list[Path]:
    """The files of the project's modules that a file with this modification time imports."""
    files: list[Path] = []
    for level, name in _imported_names(path, mtime, for_types=False):
        if level and path.is_relative_to(HOME):
            # One dot is the file's own folder, parents[0].
            files += _module_files(name, [path.parents[level - 1]])
        elif not level and _top(name) == _PROJECT:
            name = name.removeprefix(f"{_PROJECT}.")
            module = MODULES.get(name, name).removeprefix(".")  # of `from looplab import train`
            files += _module_files(module, [HOME])
    return files


def is_installed(path: Path) -> bool:
    """Says whether a file or folder belongs to an installed package or the standard library."""
    return not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(_STANDARD)


def _depth(path: Path, module: str) -> int:
    """How many folders above a module's own is the one that it is imported from."""
    is_package = path.name == "__init__.py" and bool(module)
    return module.count(".") + is_package


def _packages(path: Path, root: Path) -> list[Path]:
    """The __init__.py of the packages that a file lies in, which its import runs."""
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    return [folder / "__init__.py" for folder in folders if folder != root]


def _name(path: Path, root: Path) -> str:
    """The path of a file below the folder that it is imported from."""
    folders = [folder for folder in _roots(root) if path.is_relative_to(folder)]
    nearest = max(folders, key=lambda folder: len(folder.parts))
    return path.relative_to(nearest).as_posix()


def _roots(root: Path) -> list[Path]:
    """The folders that a user's modules are imported from: `root`, then those of sys.path."""
    folders = [Path(entry).absolute() for entry in sys.path]
    return [root, *(path for path in folders if path != HOME and not is_installed(path))]


def _imports(path: Path, root: Path) -> list[Path]:
    """The files of the modules that a file imports. An installed package is followed within
    itself."""
    files: list[Path] = []
    for level, name in _imported_names(path, _mtime(path)):
        if level:
            files += _module_files(name, [path.parents[level - 1]])
        elif _top(name) == _PROJECT:
            continue
        elif not is_installed(root) or _top(name) == _top(path.relative_to(root).parts[0]):
            files += _module_files(name, _roots(root))
    return files


def _mtime(path: Path) -> int:
    return path.stat().st_mtime_ns


def _top(name: str) -> str:
    """The first part of a dotted name, or of the name of a file."""
    return name.partition(".")[0]


@cache
def _imported_names(path: Path, mtime: int, for_types: bool = True) -> list[tuple[int, str]]:
    """The names that a file with this modification time imports, each with its number of leading
    dots. Of `from a import b` it is `a.b`, whatever b is. With `for_types` those below `if
    TYPE_CHECKING`, too."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # being edited since its import
        return []
    if not for_types:
        tree.body = [node for node in tree.body if not _is_for_types(node)]
    nodes = ast.walk(tree)
    names: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            names += [(node.level, start + alias.name) for alias in node.names]
    return names


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _module_files(name: str, folders: Iterable[Path]) -> list[Path]:
    """The file of a module and those of the packages that it lies in, from the first folder that
    has one. What follows a module's name is defined in it, and has no file."""
    for folder in folders:
        files = []
        for part in name.split("."):
            # Each part may be a package or a module; after a module's own name nothing is found.
            folder = folder / part
            files += [folder / "__init__.py", folder.with_name(f"{part}.py")]
        if files := [path for path in files if path.is_file()]:
            return files
    return []
