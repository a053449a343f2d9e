"""Digests of source files: what an edit changes, and what it does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from reloop.conf.schema import Config, TaskConfig
from reloop.evaluation.load import load_run
from reloop.evaluation.remarks import remarks
from reloop.tasks import RandomSource, Task, register_task
from reloop.training import train
from reloop.training.run_folder.environment import training_sources
from reloop.training.run_folder.run import run_folder
from reloop.training.run_folder.sources import changed_files, outside_source, sources_of
from tests.training.tiny import saved_tensors, tiny

_TASK = '''
"""A task of somebody else's."""

from dataclasses import dataclass

from reloop.tasks.task import Task, register_task
from {name}_helper import wave


@register_task("{name}")
@dataclass(frozen=True)
class Sinusoid(Task):
    @property
    def divisor(self):
        return self.dims / 2

    def parameters(self, random, dims):
        return random.normal(self.dims)

    def outputs(self, xs, amplitudes):
        return (wave(xs) @ amplitudes[:, :, None]).squeeze(2)
'''


def test_all_files_of_a_room_count_and_kernels_for_triton_alone() -> None:
    found = sources_of("models")
    assert {"models/model.py", "models/loops/loop.py", "models/blocks/attention.py"} <= set(found)
    assert not any(path.startswith(("models/kernels", "tasks", "training")) for path in found)
    config = Config(task=TaskConfig("linear"))
    assert "models/kernels/mlp.py" in training_sources(config, "triton")
    assert "models/kernels/mlp.py" not in training_sources(config)
    assert changed_files(found, found | {"models/model.py": "other"}) == ["models/model.py"]


def test_a_task_of_the_project_is_in_no_name(tmp_path: Path) -> None:
    """Runs keep the names they have: edits are told, see below."""
    from reloop.tasks.linear import Linear

    assert outside_source(Linear) is None


def test_a_task_from_outside_is_in_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the modules beside it that it imports."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []
    for number, wave in enumerate(("sin", "cos", "cos")):
        name = f"outside_{number}"  # another module each: Python does not import one twice
        folder = tmp_path / f"version{number}"
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        (folder / "outside_wave.py").write_text(_TASK.format(name="outside_wave"))
        (folder / "outside_wave_helper.py").write_text(f"def wave(x):\n    return x.{wave}()\n")
        for module in ("outside_wave", "outside_wave_helper"):
            sys.modules.pop(module, None)
        __import__("outside_wave")
        config = replace(tiny(tmp_path / name), task=TaskConfig("outside_wave", 2, 5))
        names.append(run_folder(config).path.name)
    assert names[0] != names[1]
    assert names[1] == names[2]


def test_a_task_that_has_no_file(tmp_path: Path) -> None:
    """As typed into a shell."""
    space: dict[str, Any] = {"__name__": "__shell__", "Task": Task, "register_task": register_task}
    space |= {"dataclass": dataclass, "RandomSource": RandomSource, "Tensor": Tensor}
    code = "\n".join(
        ["@register_task('typed')", "@dataclass(frozen=True)", "class Typed(Task):",
         "    divisor = 1.0", "    def parameters(self, random, dims):",
         "        return random.normal(self.dims)", "    def outputs(self, xs, w):",
         "        return (xs.{} @ w[:, :, None]).squeeze(2)"]
    )  # fmt: skip
    names = []
    for wave in ("sin()", "cos()", "cos()"):
        exec(code.format(wave), space)
        config = replace(tiny(tmp_path), task=TaskConfig("typed", 2, 5))
        names.append(run_folder(config).path.name)
    assert names[0] != names[1] == names[2]


def test_a_finished_run_of_other_code_is_told_and_marked(
    tmp_path: Path, edit: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(tmp_path, steps=20)
    train(config)
    edit("tasks/linear.py")
    capsys.readouterr()
    run = train(config)
    told = [line for line in capsys.readouterr().out.splitlines() if "tasks/linear.py" in line]
    assert len(told) == 1
    assert "marked as made by other code" in told[0]
    (remark,) = [line for line in remarks(run) if "other code" in line]
    assert "tasks/linear.py" in remark
    edit("")
    capsys.readouterr()
    train(config)
    assert "other code" not in capsys.readouterr().out


def test_what_was_trained_by_two_codes_stays_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], None]
) -> None:
    """Also for those who have the first code, or the second."""
    config, edited = _interrupted(tmp_path, monkeypatch), "models/loops/loop.py"
    edit(edited)
    run = train(config)
    assert any(edited in line for line in remarks(run))
    edit("")
    assert any(edited in line for line in remarks(load_run(run.path)))


def test_again_trains_anew_and_keeps_the_old(
    tmp_path: Path, edit: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(tmp_path, steps=20)
    first = train(config)
    weights = saved_tensors(config)
    capsys.readouterr()
    edit("tasks/linear.py")
    again = train(config, again=True)
    assert again.path == first.path
    assert "step 20/20" in capsys.readouterr().out
    assert not any("other code" in line for line in remarks(again))
    kept = load_run(first.path.with_name(first.path.name + "-before-1"))
    assert any("other code" in line for line in remarks(kept))
    edit("")
    assert all(bool((weights[f"model.{n}"] == t).all()) for n, t in kept.model.state_dict().items())
    train(config, again=True)
    assert first.path.with_name(first.path.name + "-before-2").exists()


def _interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    from tests.training.tiny import Crash, after_step, crash

    config = tiny(folder)
    with monkeypatch.context() as patch:
        after_step(patch, 25, crash)
        with pytest.raises(Crash):
            train(config)
    return config
