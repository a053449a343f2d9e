"""The file in which Optuna keeps the trials of a search, for processes on one or several machines.

storage = journal(folder)              # of folder/journal.log
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from reloop.conf.lazy import optional
from reloop.conf.mistakes import RunError, one_line
from reloop.training.run_folder.holder import Hold
from reloop.training.run_folder.lock import holding

_FILE = "journal.log"
_WAIT = 600.0  # seconds that a lock is waited for, which is held for moments


def turn(folder: Path, part: str) -> AbstractContextManager[Hold]:
    """A lock of the folder that every process holds for moments only; waits for it."""
    return holding(folder, part, _WAIT)


def journal(folder: Path) -> Any:
    """Optuna's storage in the folder's file, which is made if absent. RunError where the file
    cannot be read."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = folder / _FILE
    with turn(folder, "journal"):
        _drop_half_line(path)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_Lock(folder)))
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise RunError(f"{path} cannot be read ({one_line(error)}): move it away") from None


def check_optuna() -> None:
    """Raises ConfigError where Optuna is not installed."""
    optuna = optional("search", "optuna", "logging", "'optuna~=4.9'")
    optuna.logging.set_verbosity(optuna.logging.ERROR)


class _Lock:
    """The lock of Optuna's file, by its two methods. Optuna's own locks outlive a killed process:
    for 30 seconds, and the default one for ever where the path is relative. Nor do they remove the
    half line of a write that was cut off, after which the file cannot be read any more."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()

    def acquire(self) -> bool:
        """Wait for the lock, and remove a half line."""
        self._stack.enter_context(turn(self._folder, "journal"))
        _drop_half_line(self._folder / _FILE)
        return True

    def release(self) -> None:
        """Release it."""
        self._stack.close()


def _drop_half_line(path: Path) -> None:
    """Cut a file after its last line break."""
    try:
        with open(path, "r+b") as file:
            if not (size := file.seek(0, 2)):
                return
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return
