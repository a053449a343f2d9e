"""Two processes on one run folder: one trains, the other says who holds it and leaves; and a user
who removes it or edits a file."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from looplab.training import RunError, train
from looplab.training.run_folder.run import run_folder
from tests.training.stopping.driven import Driven, driven_config
from tests.training.tiny import after_step, saved_tensors, tiny


def test_another_process_holds_it(driven: Driven, tmp_path: Path) -> None:
    """It is named while it lives; once it is dead, its lock is nobody's."""
    driven.start(tmp_path)
    driven.until(lambda place: place == "step 4")
    config = driven_config(tmp_path)
    folder = run_folder(config)
    before = _contents(folder.path)
    with pytest.raises(RunError, match=f"process {driven.pid} on ") as refused:
        train(config)
    assert str(folder.path) in str(refused.value)
    assert socket.gethostname() in str(refused.value)
    assert "\n" not in str(refused.value)
    assert _contents(folder.path) == before
    driven.kill()
    with folder.lock():
        pass


def test_the_same_process_holds_it(tmp_path: Path) -> None:
    """A second handle is refused too, as from a notebook's other thread."""
    config = tiny(tmp_path)
    folder = run_folder(config)
    folder.create(config)
    with folder.lock(), pytest.raises(RunError, match=f"process {os.getpid()} on .* since 20"):
        train(config)
    train(config)


def test_released_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended training does not matter."""
    config = tiny(tmp_path)

    def full() -> None:
        raise OSError(28, "No space left on device")

    after_step(monkeypatch, 3, full)
    with pytest.raises(RunError, match="No space left on device; the last checkpoint is intact"):
        train(config)
    train(config)
    assert saved_tensors(config)


def _contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder that is at rest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_folder_that_is_removed_while_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path)
    after_step(monkeypatch, 17, lambda: shutil.rmtree(run_folder(config).path))
    with pytest.raises(RunError, match="the folder was removed"):
        train(config)
