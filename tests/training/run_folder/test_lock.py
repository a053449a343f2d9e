"""Two processes on one run folder: one trains, the other says who holds it and leaves; and a user
who removes it or edits a file."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from looplab.conf.plugins import PREFIX
from looplab.conf.schema import Config
from looplab.training import RunError, train
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.conftest import printed
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


def test_a_holder_that_cannot_be_read(tmp_path: Path) -> None:
    """Locked, but not yet said by whom."""
    folder = RunFolder(tmp_path)
    with folder.lock():
        (tmp_path / ".lock").write_bytes(b"")
        with pytest.raises(RunError, match="is being worked on by another process"), folder.lock():
            pass


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


PLUGIN = """
from dataclasses import dataclass

from looplab import register_baseline, register_task
from looplab.tasks.linear import Linear


@register_task("mine")
@dataclass(frozen=True)
class Mine(Linear):
    pass


@register_baseline("zero")
def zero(xs, ys, queries):
    return 0 * ys
"""


def test_a_folder_that_is_removed_while_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path)
    after_step(monkeypatch, 17, lambda: shutil.rmtree(run_folder(config).path))
    with pytest.raises(RunError, match="the folder was removed"):
        train(config)


def test_an_edited_plugin_is_another_run_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin, lines = tmp_path / "mine.py", []
    words = [f"plugins={plugin}", "task=mine", "task.dims=2", "task.points=5", "training.steps=2"]
    words += ["model.n_embd=8", "model.n_head=2", f"folder={tmp_path / 'runs'}"]
    for code in (PLUGIN, PLUGIN.replace("0 * ys", "ys - ys"), PLUGIN):
        plugin.write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"{PREFIX}mine", raising=False)  # as in a new process
        train(Config.of(*words))
        out = capsys.readouterr().out
        lines.append([each for each in out.splitlines() if "mine.py was edited" in each])
    first, edited, same = lines
    assert len(edited) == 1
    assert "this is another run" in edited[0]
    assert not first
    assert not same
    assert len(list((tmp_path / "runs").glob("mine-looped-*"))) == 2


@pytest.mark.parametrize("pairs", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_one_trains_and_the_other_names_it(pairs: int, tmp_path: Path) -> None:
    said = printed("-m", "tests.training.stopping.starters", tmp_path, pairs)
    outcomes = [json.loads(line) for line in said.splitlines()]
    assert len(outcomes) == pairs
    for number, pair in enumerate(outcomes):
        assert not [each for each in pair if "failed" in each], pair
        (trained,) = [each for each in pair if "trained" in each]
        (held,) = [each for each in pair if "held" in each]
        assert f"being worked on by process {trained['pid']} on " in held["held"]
        (folder,) = (tmp_path / str(number)).iterdir()
        assert json.loads((folder / "status.json").read_text())["state"] == "finished"
        assert not list(folder.rglob("*.partial"))
