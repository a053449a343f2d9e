"""What is killed. A command: who belongs to it, whom to kill, who is left, and what was found. A
training in another process: it halts at every step and every write until told to go on.

    command = Killable(["openml_eval", "held_out=720"], tmp_path)
    driven = Driven()                                  # or below, as __main__: the other side
    driven.start(folder)
    driven.until(lambda place: place == "step 7"); driven.kill()

The other process imports torch once and forks a child for each start. A child says where it stands
(`pid place` on its stdout) and waits for one byte: a test can kill it exactly there, or grant it
some bytes and kill it wherever it then is.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looplab.conf.schema import Config
from looplab.training.jobs import cores
from tests.conftest import HOME
from tests.training.tiny import tiny

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


def driven_config(folder: Path) -> Config:
    """What the other process trains."""
    return tiny(folder, steps=120, checkpoint_every=3, clip=1.0, warmup=50)


class Driven:
    """The test's side. `places` is what the child of the latest start has said so far."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.stopping.killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=HOME,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.places: list[str] = []
        self.pid = 0

    def start(self, folder: Path, halting: bool = True) -> None:
        """Train below `folder`; without `halting`, silently to the end."""
        self.places = []
        self._send(f"{'halting' if halting else 'free'} {folder}\n".encode())

    def next(self) -> str:
        """The next place that is reached; `ended CODE` after the last one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line, "the training process is gone"
        pid, place = line.rstrip("\n").split(" ", 1)
        self.pid = int(pid)
        self.places.append(place)
        return place

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Let it go on to the first place that is wanted."""
        while not wanted(place := self.next()):
            assert not place.startswith("ended"), f"it ended after {self.places[-3:]}"
            self.grant(1)
        return place

    def grant(self, places: int) -> None:
        """Let it pass that many places without waiting."""
        self._send(b"." * places)

    def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        while not (place := self.next()).startswith("ended"):
            pass
        assert place == f"ended -{signal.SIGKILL:d}"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def _send(self, content: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(content)
        self.process.stdin.flush()


def _main() -> None:
    """The other side: fork a child for each line on stdin, and say how it ended."""
    import torch

    import looplab.training.loop  # noqa: F401  what takes long to import, before the first fork

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    while mode_and_folder := _read_line().lstrip("."):
        mode, folder = mode_and_folder.split(" ", 1)
        child = os.fork()
        if child == 0:
            os._exit(_train(mode, Path(folder)))
        _, status = os.waitpid(child, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


def _train(mode: str, folder: Path) -> int:
    from looplab.training import train

    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  what training prints is no place
    try:
        if mode == "halting":
            _halt_everywhere()
        train(driven_config(folder))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _halt_everywhere() -> None:
    """Halt before each step, and in each write: with the .partial file there, and after it."""
    from looplab.training.run_folder import checkpoint, files, run
    from looplab.training.step import Trainer

    update, write_bytes, fsync = Trainer.update, files.write_bytes, os.fsync
    writing: list[str] = []

    def halting_update(self: Trainer, step: int) -> None:
        _halt(f"step {step}")
        update(self, step)

    def noting_write(path: Path, content: bytes) -> None:
        writing[:] = [f"writing {path}", f"renamed {path}"]
        write_bytes(path, content)

    def halting_fsync(file: int) -> None:
        if writing:
            _halt(writing.pop(0))
        fsync(file)

    Trainer.update = halting_update  # type: ignore[method-assign]
    modules: list[Any] = [files, checkpoint, run]
    for module in modules:
        module.write_bytes = noting_write
    os.fsync = halting_fsync  # type: ignore[assignment]


def _halt(place: str) -> None:
    _say(place)
    os.read(0, 1)


def _say(place: str) -> None:
    os.write(1, f"{os.getpid()} {place}\n".encode())


def _read_line() -> str:
    """A line from stdin, byte by byte: what follows it is for the child. Empty at the end."""
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


if __name__ == "__main__":
    _main()
