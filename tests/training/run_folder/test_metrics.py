"""metrics.jsonl and the lines on the screen, also where a run was stopped and goes on."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.schema import CurriculumConfig, GrowthConfig
from looplab.training import train
from looplab.training.run_folder.run import run_folder
from tests.training.tiny import crashed, interrupted, make_trainer, tiny


def _records(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "checksum"} for line in lines]


def _steps(path: Path) -> list[int]:
    return [record["step"] for record in _records(path)]


def test_each_line_is_a_record(tmp_path: Path) -> None:
    """At each log, at each checkpoint, and at the end."""
    config = tiny(tmp_path, log_every=25, checkpoint_every=20)
    train(config)
    records = _records(run_folder(config).metrics)
    assert [record["step"] for record in records] == [20, 25, 40, 50, 60]
    for record in records:
        assert (record["loops"], record["dims"], record["points"]) == (2, 2, 5)
        assert all(math.isfinite(value) for value in record.values())
        assert record["loss"] > 0
        assert record["grad_norm"] > 0
        assert record["steps_per_second"] > 0


def test_the_loss_is_the_mean_since_the_last_record(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    train(config)
    trainer = make_trainer(config)
    losses = []
    for step in range(10):
        trainer.update(step)
        losses.append(trainer.fetch().loss)
    records = _records(run_folder(config).metrics)
    assert records[0]["loss"] == pytest.approx(sum(losses[:5]) / 5)
    assert records[1]["loss"] == pytest.approx(sum(losses[5:]) / 5)


def test_the_stage_is_that_of_the_last_step_made(tmp_path: Path) -> None:
    growth = CurriculumConfig(
        dims=GrowthConfig(start=1, intervals=(10,)), points=GrowthConfig(start=4, intervals=(11,))
    )
    config = replace(tiny(tmp_path), curriculum=growth)
    train(config)
    records = {record["step"]: record for record in _records(run_folder(config).metrics)}
    assert [records[step]["dims"] for step in (5, 10, 15)] == [1, 1, 2]
    assert [records[step]["points"] for step in (5, 10, 15)] == [4, 4, 5]


def test_no_step_comes_twice(tmp_path: Path) -> None:
    """Steps that a crash made undone are forgotten and told again, with the same loss."""
    whole, stopped = tiny(tmp_path / "whole"), tiny(tmp_path / "stopped")
    train(whole)
    path = run_folder(stopped).metrics
    crashed(stopped, 17)
    assert _steps(path) == [5, 10, 15]
    with path.open("a") as file:
        file.write('{"step": 20, "lo')  # as if killed in the middle of a line
    train(stopped)
    assert _steps(path) == _steps(run_folder(whole).metrics) == list(range(5, 65, 5))
    losses = [
        [record["loss"] for record in _records(run_folder(config).metrics)]
        for config in (whole, stopped)
    ]
    assert losses[0] == losses[1]


def test_a_signal_adds_a_record(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    interrupted(config, 16)
    train(config)
    steps = _steps(run_folder(config).metrics)
    assert steps == sorted({*range(5, 65, 5), 17})
