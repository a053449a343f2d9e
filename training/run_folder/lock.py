"""One process at a time in a folder; the error of a second one names the first.

with holding(Path("runs/NAME")): …

Two files make a lock: `.lock` with the file system's own lock, which ends with its process, and a
holder file, which its process touches while it lives (holder.py). So a lock also works where the
file system's locks do not reach other machines, and ends where they outlive a machine that died.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from reloop.conf.mistakes import ConfigError, HeldElsewhere

from .holder import (
    Hold,
    beating,
    describe,
    is_alive,
    is_elsewhere,
    is_young,
    read_holder,
    remove_holder,
)

_LOCK_TIMEOUT = 0.5  # seconds: `is_locked` in another process may hold a lock for a moment
_HOLDER_TIMEOUT = 2.0  # seconds until a process that holds a lock has written its holder file
_AGAIN = 0.05  # seconds between attempts
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)


@contextmanager
def holding(folder: Path, part: str = "", wait: float = _LOCK_TIMEOUT) -> Iterator[Hold]:
    """Lock the folder, created if absent, against other processes; or, with a name, that `part` of
    it alone: a run can be evaluated during its training. A lock that another process holds is
    waited for, `wait` seconds. The `Hold` says whether the lock is still this process's.

    Raises HeldElsewhere, naming the process that holds the lock, and ConfigError where the folder
    cannot be created, or its file system has no locks.
    """
    path = folder / (f".{part}.lock" if part else ".lock")
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            hold = _take(path, wait, held)
        except Timeout:
            raise HeldElsewhere(folder, _describe(holder_of(path)), path) from None
        except (OSError, NotImplementedError) as error:
            raise ConfigError("folder", f"cannot hold runs: {_reason(error)}") from None
        yield hold


def is_held(folder: Path) -> bool:
    """Whether some process holds the folder now."""
    return is_locked(folder / ".lock")


def is_locked(path: Path) -> bool:
    """Whether some process holds this lock file now."""
    if not path.exists():
        return False
    holder, lock = holder_of(path), FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return not (is_elsewhere(holder) and not is_young(holder))
    except (OSError, NotImplementedError):  # reported where the lock is needed
        return False
    lock.release()
    return is_elsewhere(holder) and is_young(holder)


def forget_holder(folder: Path) -> None:
    """Remove the holder file of a folder that was renamed while it was locked."""
    holder_of(folder / ".lock").unlink(missing_ok=True)


def _take(path: Path, wait: float, held: ExitStack) -> Hold:
    """Take both the lock and the holder file, for as long as `held`. Timeout where another process
    has them for `wait` seconds from now on."""
    holder, deadline = holder_of(path), time.monotonic() + wait
    while True:
        with ExitStack() as taken:
            taken.callback(_acquire(path, max(deadline - time.monotonic(), 0)).release)
            before = read_holder(holder)
            # Else these locks end at this machine, or the other one's process was just killed.
            if not (is_elsewhere(holder) and is_young(holder)):
                remove_holder(holder, before)
                with suppress(FileExistsError):
                    hold = taken.enter_context(beating(holder))
                    held.push(taken.pop_all())
                    return hold
        if time.monotonic() >= deadline:
            raise Timeout(str(path))
        time.sleep(_AGAIN)


def _acquire(path: Path, wait: float) -> FileLock:
    """The lock of this file, acquired. Timeout where another process has it."""
    lock, holder = FileLock(path), holder_of(path)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        if not is_elsewhere(holder) or is_young(holder):
            raise
        _drop(path)
        lock = FileLock(path)
        lock.acquire(timeout=wait)
    return lock


def _drop(path: Path) -> None:
    """Remove the lock file and the holder file of a process that died with its machine. One process
    at a time: a second one finds those of the first."""
    holder, aside = holder_of(path), path.with_name(f"{path.name}.dropped")
    dropping = FileLock(path.with_name(f"{path.name}.dropping"))
    with dropping.acquire(timeout=_HOLDER_TIMEOUT):
        if is_elsewhere(holder) and not is_young(holder):
            os.replace(path, aside)
            aside.unlink(missing_ok=True)
            holder.unlink(missing_ok=True)


def _describe(path: Path) -> str:
    """The process of a holder file as text; it may need a moment to write it."""
    deadline = time.monotonic() + _HOLDER_TIMEOUT
    while not is_alive(path):
        if time.monotonic() > deadline:
            return describe(None)
        time.sleep(0.02)
    return describe(read_holder(path))


def holder_of(path: Path) -> Path:
    """The holder file beside a lock file."""
    return path.with_name(f"{path.name.removesuffix('lock')}holder.json")


def _reason(error: Exception) -> str:
    """Why a lock cannot be made, as text."""
    if isinstance(error, NotImplementedError) or getattr(error, "errno", None) in _NO_LOCKS:
        return (
            "its file system has no locks (NFS needs lockd or version 4, Lustre the option flock)"
        )
    return str(error)
