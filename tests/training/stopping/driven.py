"""A training in another process that halts at every step and every write until told to go on.

    driven = Driven()                                  # or below, as __main__: the other side
    driven.start(folder)
    driven.until(lambda place: place == "step 7"); driven.kill()

The other process imports torch once and forks a child for each start. A child says where it stands
(`pid place` on its stdout) and waits for one byte: a test can kill it exactly there, or grant it
some bytes and kill it wherever it then is.
"""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.conf.schema import Config
from tests.conftest import HOME
from tests.training.tiny import tiny


def driven_config(folder: Path) -> Config:
    """What the other process trains."""
    return tiny(folder, steps=120, checkpoint_every=3, clip=1.0, warmup=50)


class Driven:
    """The test's side. `places` is what the child of the latest start has said so far."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.stopping.driven"],
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
