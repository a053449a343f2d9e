"""What a run leaves behind: its configuration, its surroundings, its status and its metrics, also
where it was stopped and goes on; and who holds its folder."""

import json
import math
import os
import re
import shutil
import socket
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig, ModelConfig, TaskConfig
from looplab.evaluation.load import load_run
from looplab.training import RunError, train
from looplab.training.run_folder.files import read_json
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.training.stopping.killed import Driven, driven_config
from tests.training.tiny import after_step, crashed, tiny


def _configs(folder: Path) -> list[Config]:
    base = tiny(folder)
    growth = GrowthConfig(start=1, inc=3, intervals=(5, 10, 20))
    return [
        base,
        Config(),
        replace(base, task=TaskConfig("noisy_linear", 2, 5, 7, {"noise_std": 1e-5})),
        replace(base, model=ModelConfig("standard", n_layer=3, injection="none")),
        replace(base, curriculum=CurriculumConfig(growth, growth, GrowthConfig(intervals=(7,)))),
        replace(base, seed=2**40, precision="fp32", scale="small", wandb="offline"),
    ]


def test_the_configuration_comes_back_equal(tmp_path: Path) -> None:
    for index, config in enumerate(_configs(tmp_path)):
        folder = RunFolder(tmp_path / f"{index}")
        folder.create(config)
        assert read_config(folder.path) == config


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("schema_version: 2", ": schema_version "),
        ("schema_version: 1\ncolour: red", ": colour "),
        ("training: {stepz: 3}", ": training.stepz "),
        ("training: {steps: -1}", ": training.steps "),
        ("task: linear", ": task "),
        ("a: !!python/object/apply:os.getcwd []", " cannot be read"),  # would run something
    ],
)
def test_what_cannot_be_understood_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    """A setting of a newer version must not be ignored: the model would be another."""
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"config\.yaml{re.escape(problem)}"):
        read_config(tmp_path)
    with pytest.raises(ConfigError):
        load_run(tmp_path)


def test_the_status_of_a_finished_run(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    assert run_folder(config).status() == {"state": "new", "step": 0}
    train(config)
    status = run_folder(config).status()
    assert (status["state"], status["step"]) == ("finished", 60)
    assert (status["pid"], status["host"]) == (os.getpid(), socket.gethostname())
    assert datetime.fromisoformat(status["time"]).tzinfo is not None
    assert status["seconds"] > 0
    assert status["cpu_seconds"] > 0


def test_a_run_whose_process_is_gone_has_stopped(tmp_path: Path) -> None:
    """Its status says 'running' for ever; who reads it knows better, and nobody else is told so."""
    config = tiny(tmp_path)
    folder = run_folder(config)
    crashed(config, 20)
    assert read_json(folder.path / "status.json")["state"] == "running"
    assert folder.status()["state"] == "stopped"
    with folder.lock():
        assert folder.status()["state"] == "running"
    train(config)
    assert folder.status()["state"] == "finished"


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
    with pytest.raises(RunError, match=r"its folder .* was deleted"):
        train(config)
