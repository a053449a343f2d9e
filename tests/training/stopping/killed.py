"""Commands that are killed: who belongs to one, whom to kill, who is left, and what was found.

command = Killable(["openml_eval", "held_out=720"], tmp_path)
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looplab.training.jobs import cores
from tests.conftest import HOME

GONE = 10.0  # seconds that may pass, where cores are free, until nobody is left of a killed command


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


_WHO = ("parent", "worker", "group")


@dataclass
class Subject:
    """A command: its words, and what was done to it."""

    words: list[str]
    kills: Counter[str] = field(default_factory=Counter)
    gone: list[float] = field(default_factory=list)  # seconds until nobody was left

    def start(self, folder: Path, number: int, **variables: str) -> Killable:
        says = folder.with_name(f"{folder.name}-{number}.txt")
        return Killable([*self.words, f"folder={folder}"], says, **variables)


def kill_at_some_point(
    command: Killable, folder: Path, most: int, who: str, chance: random.Random
) -> bool:
    """Wait until it has written some files, or for a moment, and kill; whether it was killed."""
    before, some = written(folder), chance.randrange(max(1, most // 2))
    while command.alive() and len(written(folder) - before) < some:
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 0.3 if some else 3))
    while command.alive():
        if command.kill(who, chance):
            return True
    return False


def disturbed(
    subject: Subject, folder: Path, most: int, chance: random.Random, started: list[Killable]
) -> Killable:
    """The command, started and killed until it ends; half of the times it is started anew while
    those that it left behind still end."""
    started.append(command := subject.start(folder, len(started)))
    who, lost = chance.choice(_WHO), False  # a worker, whose run the same command does
    while (hit := kill_at_some_point(command, folder, most, who, chance)) or (
        lost and command.code()
    ):
        if not hit:
            lost = False
            started.append(command := subject.start(folder, len(started)))
            continue
        subject.kills[who] += 1
        if who == "worker":
            who, lost = chance.choice(("parent", "group")), True
            continue
        killed, who = command, chance.choice(_WHO)
        at_once = chance.random() < 0.5
        if not at_once:
            subject.gone.append(killed.seconds_to_be_gone())
        started.append(command := subject.start(folder, len(started)))
        if at_once:
            subject.gone.append(killed.seconds_to_be_gone())
        assert "Traceback" not in killed.printed, killed.printed
    return command
