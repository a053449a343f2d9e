"""TensorBoard beside metrics.jsonl, and a run's own name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.training import train
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import saved_tensors, tiny


def test_without_tensorboard_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"which is not installed \(pip install tensorboard\)"):
        train(replace(tiny(tmp_path / "runs"), tensorboard=True))
    assert not (tmp_path / "runs").exists()


def test_tensorboard_has_the_scalars_of_metrics_also_after_a_pause(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = replace(tiny(tmp_path), tensorboard=True)
    train(config, until=config.training.steps // 2)
    path = train(config).path
    lines = (path / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == steps


def test_a_name_is_in_front_of_the_folder_and_changes_nothing_else(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    named = replace(config, name="my-try")
    assert run_folder(named).path.name == f"my-try-{run_folder(config).path.name}"
    train(config)
    train(named)
    one, other = saved_tensors(config), saved_tensors(named)
    assert all((one[name] == other[name]).all() for name in one)
