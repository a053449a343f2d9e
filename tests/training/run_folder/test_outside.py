"""What happens to a run folder outside of training: it is removed, or a user's file is edited."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from reloop.conf.mistakes import RunError
from reloop.conf.plugins import PREFIX
from reloop.conf.schema import Config
from reloop.training import train
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import after_step, tiny

PLUGIN = """
from dataclasses import dataclass

from reloop import register_baseline, register_task
from reloop.tasks.linear import Linear


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
