"""One process at a time in a folder; the error of a second one names the first.

with holding(Path("runs/NAME")): …
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from looplab.conf.mistakes import ConfigError, HeldElsewhere

_WAIT = 0.5  # seconds: `is_locked` in another process may hold a lock for a moment
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)


@contextmanager
def holding(folder: Path, part: str = "", wait: float = _WAIT) -> Iterator[None]:
    """Lock the folder, created if absent, against other processes; or, with a name, that `part` of
    it alone: a run can be evaluated during its training. A lock that another process holds is
    waited for, `wait` seconds. It ends with its process, however that ends.

    Raises HeldElsewhere, naming the process that holds the lock, and ConfigError where the folder
    cannot be created, or its file system has no locks.
    """
    path = folder / (f".{part}.lock" if part else ".lock")
    lock = FileLock(path, fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=wait)
    except Timeout:
        raise HeldElsewhere(folder, _holder(path), path) from None
    except (OSError, NotImplementedError) as error:
        raise ConfigError("folder", f"cannot hold runs: {_reason(error)}") from None
    try:
        with suppress(OSError):  # a full disk: the lock holds all the same
            path.write_text("process {pid} on {host} since {time}".format(**writer()), "utf-8")
        yield
    finally:
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether some process holds the folder now."""
    return is_locked(folder / ".lock")


def is_locked(path: Path) -> bool:
    """Whether some process holds this lock file now."""
    if not path.exists():
        return False
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):  # reported where the lock is needed
        return False
    lock.release()
    return False


def writer() -> dict[str, Any]:
    """This process and the time, for a file that names its writer."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "time": now}


def _holder(path: Path) -> str:
    """The process that holds a lock, as it wrote itself."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8") or "another process"
    return "another process"


def _reason(error: Exception) -> str:
    """Why a lock cannot be made, as text."""
    if isinstance(error, NotImplementedError) or getattr(error, "errno", None) in _NO_LOCKS:
        return (
            "its file system has no locks (NFS needs lockd or version 4, Lustre the option flock)"
        )
    return str(error)
