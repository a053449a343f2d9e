"""Locks over several machines: a holder on another one lives as long as it touches its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from reloop.conf.mistakes import HeldElsewhere, RunError
from reloop.training import train
from reloop.training.run_folder import holder
from reloop.training.run_folder.files import read_json, write_json
from reloop.training.run_folder.lock import holding, is_held
from reloop.training.run_folder.run import run_folder
from tests.conftest import HOME
from tests.training.tiny import after_step, tiny

_HOLDER = ".holder.json"
_HOLDS = """
import time
from pathlib import Path
from reloop.training.run_folder.lock import holding
with holding(Path({folder!r})):
    print("held", flush=True)
    time.sleep(600)
"""


def _elsewhere(folder: Path, age: float) -> None:
    """A holder file of another machine, last touched `age` seconds ago."""
    folder.mkdir(exist_ok=True)
    write_json(folder / _HOLDER, {"pid": 1, "host": "node7", "time": "2026-01-01", "beat": 30.0})
    touched = time.time() - age
    os.utime(folder / _HOLDER, (touched, touched))
    (folder / ".lock").touch()


@pytest.mark.parametrize(("age", "held"), [(0, True), (170, True), (190, False)])
def test_another_machine_whose_locks_do_not_reach_this_one(
    tmp_path: Path, age: float, held: bool
) -> None:
    """Its lock is free here, but its holder file is touched: it lives."""
    _elsewhere(tmp_path, age)
    assert is_held(tmp_path) is held
    if held:
        with pytest.raises(HeldElsewhere, match="by process 1 on node7"), holding(tmp_path):
            pass
        assert read_json(tmp_path / _HOLDER)["host"] == "node7"
    else:
        with holding(tmp_path):
            assert read_json(tmp_path / _HOLDER)["pid"] == os.getpid()
        assert not (tmp_path / _HOLDER).exists()


def test_a_lock_of_another_machine_is_waited_for(tmp_path: Path) -> None:
    """As long as this process says; its holder is removed, or has died by then."""
    _elsewhere(tmp_path, age=0)
    with pytest.raises(HeldElsewhere, match="node7"), holding(tmp_path, wait=0.2):
        pass
    (tmp_path / _HOLDER).unlink()
    _elsewhere(tmp_path, age=179)
    with holding(tmp_path, wait=10):
        assert read_json(tmp_path / _HOLDER)["pid"] == os.getpid()


def test_a_lock_that_outlived_its_machine(tmp_path: Path) -> None:
    """The file system still has the lock of a machine that no longer touches the holder file."""
    code = _HOLDS.format(folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], cwd=HOME, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        _elsewhere(tmp_path, age=170)
        with pytest.raises(HeldElsewhere), holding(tmp_path):
            pass
        _elsewhere(tmp_path, age=190)
        assert not is_held(tmp_path)
        with holding(tmp_path):
            assert is_held(tmp_path)
            with pytest.raises(HeldElsewhere), holding(tmp_path):
                pass
        other.kill()
    with holding(tmp_path):
        pass


def test_a_holder_file_stays_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is touched with the heartbeat of its process, which it states."""
    monkeypatch.setenv("RELOOP_HEARTBEAT", "0.1")
    monkeypatch.setattr(holder, "_hearts", {})
    with holding(tmp_path):
        path = tmp_path / _HOLDER
        assert json.loads(path.read_text())["beat"] == 0.1
        os.utime(path, (1, 1))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert holder.is_young(path)


def test_who_stood_still_and_was_replaced_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine that slept: another one has taken over the run meanwhile."""
    config = tiny(tmp_path)
    path = run_folder(config).path
    now = time.time

    def sleep_and_lose() -> None:
        write_json(path / _HOLDER, {"pid": 1, "host": "node7", "time": "2026-01-01", "beat": 30.0})
        monkeypatch.setattr(time, "time", lambda: now() + 1000)

    after_step(monkeypatch, 3, sleep_and_lose)
    with pytest.raises(RunError, match="was taken over by process 1 on node7 since 2026"):
        train(config)
    assert read_json(path / _HOLDER)["host"] == "node7"


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileLock, **options: float) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(ValueError, match="cannot hold runs: its file system has no locks"):
        holding(tmp_path).__enter__()


def test_of_two_machines_that_find_a_dead_holder_one_takes_over(tmp_path: Path) -> None:
    """The quicker one's file stays when the slower one removes that of the dead."""
    _elsewhere(tmp_path, age=1000)
    path = tmp_path / _HOLDER
    dead = holder.read_holder(path)
    other = {"pid": 2, "host": "node8", "time": "2026-01-02", "beat": 30.0}
    holder.remove_holder(path, dead)
    assert not path.exists()
    write_json(path, other)
    holder.remove_holder(path, dead)
    assert read_json(path) == other
    assert [each.name for each in tmp_path.glob("*holder*")] == [_HOLDER]
