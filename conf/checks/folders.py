"""Checks of a folder that a user names: it can be written to, before anything is computed; and
which files in it are his."""

import os
import tempfile
from pathlib import Path

from ..mistakes import ConfigError


def check_folder(key: str, folder: str) -> None:
    """Raises ConfigError, naming the key, where `folder` can neither be written to nor be
    created."""
    parent = Path(folder)
    # Up to what is there; lexists, as a broken link cannot be made a folder either.
    while not os.path.lexists(parent):
        parent = parent.parent
    if not folder or not parent.is_dir():
        raise ConfigError(key, f"must be a folder or a new one's path, got {folder!r}")
    if not is_writable(parent):
        raise ConfigError(key, f"cannot be {folder!r}: nothing can be written in {parent}")


def is_writable(folder: Path) -> bool:
    """Says whether files can be written in a folder that there is: by a trial, as permissions do
    not tell of /proc, or of a disk that is read-only."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def is_hidden(path: Path, folder: Path) -> bool:
    """Says whether a path in a folder is none of the user's: what begins with a dot, as editors'
    copies do, and what macOS adds to archives."""
    return any(
        name.startswith(".") or name == "__MACOSX" for name in path.relative_to(folder).parts
    )
