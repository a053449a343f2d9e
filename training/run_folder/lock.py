"""One process at a time in a folder; the error of a second one names the first.

with holding(Path("runs/NAME")): …
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reloop.conf.mistakes import ConfigError, HeldElsewhere

from .files import read_record, write_record

_HOLDER = "holder.json"
_LOCK_TIMEOUT = 0.5  # seconds: `is_locked` in another process may hold a lock for a moment
_HOLDER_TIMEOUT = 2.0  # seconds until a process that holds a lock has written its holder file


@contextmanager
def holding(folder: Path, part: str = "", wait: float = _LOCK_TIMEOUT) -> Iterator[None]:
    """Lock the folder, created if absent, against other processes; or, with a name, that `part` of
    it alone: a run can be evaluated during its training. A lock that another process holds is
    waited for, `wait` seconds.

    Raises HeldElsewhere, naming the process that holds the lock, and ConfigError where the folder
    cannot be created.
    """
    path, holder = _path(folder, part, "lock"), _path(folder, part, _HOLDER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=wait)
    except Timeout:
        raise HeldElsewhere(folder, _describe(holder), path) from None
    except OSError as error:
        raise ConfigError("folder", f"cannot hold runs: {error}") from None
    try:
        write_record(holder, "holder", writer())
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether some process holds the folder now."""
    return is_locked(_path(folder, "", "lock"))


def is_locked(path: Path) -> bool:
    """Whether some process holds this lock file now."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # reported where the lock is needed
        return False
    lock.release()
    return False


def forget_holder(folder: Path) -> None:
    """Remove the holder file of a folder that was renamed while it was locked."""
    _path(folder, "", _HOLDER).unlink(missing_ok=True)


def writer() -> dict[str, Any]:
    """This process and the time, for a file that names its writer."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "time": now}


def _describe(path: Path) -> str:
    """The process of a holder file as text; it may need a moment to write it."""
    deadline = time.monotonic() + _HOLDER_TIMEOUT
    while True:
        holder = read_record(path, "holder").content or {}
        if _is_alive(holder):
            return f"process {holder['pid']} on {holder['host']} since {holder['time']}"
        if time.monotonic() > deadline:
            return "another process"
        time.sleep(0.02)


def _is_alive(holder: Mapping[str, Any]) -> bool:
    """Whether a holder file is complete and its process, if on this machine, exists."""
    if not {"pid", "host", "time"} <= set(holder) or not isinstance(holder["pid"], int):
        return False
    if holder["host"] != socket.gethostname():
        return True
    try:
        os.kill(holder["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _path(folder: Path, part: str, suffix: str) -> Path:
    return folder / (f".{part}.{suffix}" if part else f".{suffix}")
