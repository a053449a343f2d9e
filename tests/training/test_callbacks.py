"""What a training calls, and its early end by the errors of its log."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.remarks import remarks
from looplab.evaluation.runs_table import runs_table
from looplab.training import Callback, EarlyStopping, train
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of
from tests.training.tiny import assert_same_bits, interrupted, saved_tensors, tiny


def resting(folder: Path, **training: Any) -> Config:
    """A run whose error never falls, measured every four steps."""
    config = tiny(folder, learning_rate=1e-30, **training)
    return replace(config, evaluation=EvaluationConfig(prompts=8, every=4))


class Notes(Callback):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.logged: list[Mapping[str, Any]] = []
        self.errors: dict[int, float] = {}

    def on_log(self, step: int, values: Mapping[str, Any]) -> None:
        assert values["step"] == step
        self.logged.append(values)

    def on_evaluate(self, step: int, values: Mapping[str, float]) -> None:
        self.errors[step] = values["error"]


def test_callbacks_see_what_is_logged_and_change_nothing(tmp_path: Path) -> None:
    config, notes = resting(tmp_path / "a", steps=20), Notes()
    run = train(config, callbacks=[notes])
    assert notes.logged == Metrics(run.path / "metrics.jsonl").read()[0]
    assert list(notes.errors) == [4, 8, 12, 16, 20]
    plain = resting(tmp_path / "b", steps=20)
    train(plain)
    assert_same_bits(saved_tensors(config), saved_tensors(plain))


def test_a_training_that_rests_ends_and_goes_on_without_the_callback(tmp_path: Path) -> None:
    """After as many steps where it was interrupted, and to the end of one that never ended early;
    asked for again, it makes no step."""
    whole, config = resting(tmp_path / "whole"), resting(tmp_path / "early")
    train(whole)
    stop = [EarlyStopping(patience=3)]
    path = run_folder(config).path
    interrupted(config, 9)
    for _ in range(2):
        run = train(config, callbacks=stop)
        assert (run.step, status_of(path)["state"]) == (16, "stopped early")
    assert "training unfinished: 16 of 60 steps" in remarks(run)
    assert list(runs_table(tmp_path / "early").state) == ["stopped early"]
    assert train(resting(tmp_path / "at once"), callbacks=stop).step == 16
    assert train(config).step == 60
    assert_same_bits(saved_tensors(config), saved_tensors(whole))


def test_early_stopping_reads_errors_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.every must be given: EarlyStopping"):
        train(tiny(tmp_path / "runs"), callbacks=[EarlyStopping()])
    assert not (tmp_path / "runs").exists()
