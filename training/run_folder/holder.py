"""The file that names the process which holds a lock. It is touched again and again while the
process lives: one on another machine that has died is recognised by its age.

with beating(path): …
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reloop.conf.mistakes import RunError

from .files import file_system_time, read_json

_SETTING = "RELOOP_HEARTBEAT"  # environment variable: seconds between two touches
_BEAT = 15.0
_MISSED = 6  # a holder on another machine that has missed so many touches is dead
_WRITTEN_WITHIN = 5.0  # seconds within which a holder file without content is still being written


def writer() -> dict[str, Any]:
    """This process and the time, for a file that names its writer."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "time": now}


class Hold:
    """A lock that this process holds, by its holder file."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path, self.content = path, content
        self._touched = time.time()

    def touch(self) -> None:
        """Show that this process lives."""
        if self.is_mine():
            with suppress(OSError):
                os.utime(self.path)
            self._touched = time.time()

    def check(self) -> None:
        """Raises RunError where another machine took the lock over, since this process did not run
        for minutes."""
        if time.time() - self._touched > 2 * self.content["beat"] and not self.is_mine():
            raise RunError(
                f"{self.path.parent} was taken over by {describe(read_holder(self.path))}: "
                "this process stood still for minutes"
            )

    def is_mine(self) -> bool:
        """Whether the holder file still names this process."""
        return bool(read_holder(self.path) == self.content)


class _Heart(threading.Thread):
    """Touches the holder files of all locks that this process holds."""

    def __init__(self) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._holds: list[Hold] = []
        self._changed = threading.Condition()

    def add(self, hold: Hold) -> None:
        with self._changed:
            self._holds.append(hold)

    def remove(self, hold: Hold) -> None:
        with self._changed:
            self._holds.remove(hold)

    def run(self) -> None:
        while True:
            time.sleep(heartbeat())
            with self._changed:
                holds = list(self._holds)
            for hold in holds:
                hold.touch()


_hearts: dict[int, _Heart] = {}  # by process: a fork has no thread


@contextmanager
def beating(path: Path) -> Iterator[Hold]:
    """Write the holder file, keep it young, and remove it in the end. FileExistsError where another
    process has just written one."""
    content = writer() | {"beat": heartbeat()}
    with open(path, "x", encoding="utf-8") as file:  # at once on every file system
        json.dump(content, file)
    hold = Hold(path, content)
    if os.getpid() not in _hearts:
        _hearts[os.getpid()] = _Heart()
        _hearts[os.getpid()].start()
    heart = _hearts[os.getpid()]
    heart.add(hold)
    try:
        yield hold
    finally:
        heart.remove(hold)
        if hold.is_mine():
            path.unlink(missing_ok=True)


def heartbeat() -> float:
    """Seconds between two touches of a holder file: $RELOOP_HEARTBEAT, or 15."""
    with suppress(ValueError):
        return max(0.1, float(os.environ.get(_SETTING, _BEAT)))
    return _BEAT


def read_holder(path: Path) -> dict[str, Any] | None:
    """The content of a holder file; None where it is absent or not complete."""
    content = read_json(path)
    complete = isinstance(content, dict) and {"pid", "host", "time"} <= set(content)
    return content if complete and isinstance(content["pid"], int) else None


def remove_holder(path: Path, content: Mapping[str, Any] | None) -> None:
    """Remove the holder file of a process that is gone, if it still has this content: that of a
    process on another machine, which found the same and was quicker, stays."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    if read_holder(aside) != content:
        with suppress(FileExistsError):
            os.link(aside, path)
    aside.unlink()


def is_elsewhere(path: Path) -> bool:
    """Whether a holder file names a process of another machine, of which only its age tells."""
    holder = read_holder(path)
    return holder is not None and holder["host"] != socket.gethostname()


def is_young(path: Path) -> bool:
    """Whether a holder file was touched within the last six heartbeats of its process, by the clock
    of its file system; one without content, within the last seconds."""
    try:
        age = file_system_time(path.parent) - path.stat().st_mtime
    except OSError:
        return False
    holder = read_holder(path)
    if holder is None:
        return age < _WRITTEN_WITHIN
    beat = holder.get("beat")
    return age < _MISSED * (beat if isinstance(beat, int | float) else _BEAT)


def is_alive(path: Path) -> bool:
    """Whether the process of a holder file lives: one of this machine exists, one of another
    machine has touched the file lately."""
    holder = read_holder(path)
    if holder is None:
        return False
    if is_elsewhere(path):
        return is_young(path)
    try:
        os.kill(holder["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def describe(holder: Mapping[str, Any] | None) -> str:
    """The process of a holder file as text."""
    if holder is None:
        return "another process"
    return f"process {holder['pid']} on {holder['host']} since {holder['time']}"
