"""Commands that are killed: who belongs to one, whom to kill, who is left, and what was found.

command = Killable(["openml_eval", "held_out=720"], tmp_path)
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looplab.training.jobs import cores
from tests.conftest import HOME

GONE = 10.0  # seconds that may pass, where cores are free, until nobody is left of a killed command
_TIMES = ("seconds", "cpu_seconds", "checksum")  # which is over the others too


@dataclass(frozen=True)
class Process:
    """One of the processes of a session, as Linux shows it."""

    pid: int
    parent: int
    works: bool  # on a job

    @staticmethod
    def of(session: int) -> list[Process]:
        """All that are alive."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                works = b"multiprocessing.spawn" in (path / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(Process(int(path.name), int(fields[1]), works))
        return found


class Killable:
    """A command at work in a session of its own."""

    def __init__(self, words: list[str], says: Path, **variables: str) -> None:
        self._out = says
        with open(says, "wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=HOME,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | variables,
            )
        self.pid = self._process.pid
        self._killed = 0.0

    @property
    def printed(self) -> str:
        return self._out.read_text()

    def alive(self) -> bool:
        return self._process.poll() is None

    def code(self, timeout: float = 600) -> int:
        """Wait for its end; its exit code."""
        return self._process.wait(timeout)

    def interrupt(self) -> None:
        """As Ctrl-C on its terminal."""
        os.killpg(self.pid, signal.SIGINT)

    def workers(self) -> list[int]:
        """Those that do jobs now."""
        return [each.pid for each in Process.of(self.pid) if each.works]

    def kill(self, who: str, chance: random.Random) -> bool:
        """SIGKILL to the parent, a worker or the whole group; whether there was one to kill."""
        if not self.alive():
            return False
        self._killed = time.monotonic()
        if who == "group":
            os.killpg(self.pid, signal.SIGKILL)
        elif who == "parent":
            os.kill(self.pid, signal.SIGKILL)
        else:
            workers = self.workers()
            if workers:
                os.kill(chance.choice(workers), signal.SIGKILL)
            return bool(workers)
        self.code()
        return True

    def seconds_to_be_gone(self) -> float:
        """From its death to that of the last of its processes."""
        busy = max(1.0, os.getloadavg()[0] / cores())
        while left := Process.of(self.pid):
            took = time.monotonic() - self._killed
            assert took < GONE * busy, f"{len(left)} processes are left after {took:.1f} s: {left}"
            time.sleep(0.05)
        return time.monotonic() - self._killed

    def end(self) -> None:
        """Leave nobody behind, whatever happened."""
        for each in Process.of(self.pid):
            os.kill(each.pid, signal.SIGKILL)
        self._process.wait()


def until(there: Callable[[], Any], timeout: float = 300) -> None:
    """Wait for something to be there."""
    deadline = time.monotonic() + timeout
    while not there():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def written(folder: Path) -> set[tuple[str, int]]:
    """Which files there are, and when each was last written."""
    found = set()
    for path in folder.rglob("*"):
        try:
            found.add((str(path), path.stat().st_mtime_ns))
        except OSError:
            continue  # one that was renamed
    return found


def result(folder: Path, pattern: str) -> Any:
    """What a command found, apart from how long that took and where it stands."""
    (path,) = folder.glob(pattern)
    return _plain(json.loads(path.read_text().replace(str(folder), "FOLDER")))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _TIMES}
    return [_plain(each) for each in value] if isinstance(value, list) else value
