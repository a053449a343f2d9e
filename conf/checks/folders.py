"""Checks of a folder that a user names: it can be written to, before anything is computed; and
which files in it are his."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from ..mistakes import ConfigError


def check_folder(key: str, folder: str) -> None:
    """Raises ConfigError, naming the key, where `folder` can neither be written to nor be created.
    Leaves no file behind."""
    parent, names = Path(folder), list[str]()
    while not os.path.lexists(parent):
        names.append(parent.name)
        parent = parent.parent
    if not folder or not parent.is_dir():
        raise ConfigError(key, f"must be a folder or a new one's path, got {folder!r}")
    try:
        for path in [Path(folder), *(parent / name for name in names)]:  # names that are too long
            with suppress(FileNotFoundError):
                os.lstat(path)
        with TemporaryFile(dir=parent):
            pass
    except OSError as error:
        reason = f"nothing can be written in {parent} ({error.strerror})"
        raise ConfigError(key, f"cannot be {folder!r}: {reason}") from None


def is_hidden(path: Path, folder: Path) -> bool:
    """Says whether a path in a folder is none of the user's: what begins with a dot, as editors'
    copies do, and what macOS adds to archives."""
    return any(
        part.startswith(".") or part == "__MACOSX" for part in path.relative_to(folder).parts
    )
