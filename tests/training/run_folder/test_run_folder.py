"""What a run leaves behind: its configuration, its surroundings, its status, and no pickle."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import torch
import yaml

from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig, ModelConfig, TaskConfig
from looplab.evaluation.load import load_run
from looplab.training import train
from looplab.training.run_folder.files import read_json
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.training.tiny import crashed, interrupted, tiny


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


def test_it_is_written_once(tmp_path: Path) -> None:
    """What a run began with stays, whatever it goes on with."""
    folder = RunFolder(tmp_path / "run")
    folder.create(tiny(tmp_path))
    folder.create(tiny(tmp_path, log_every=1))
    assert read_config(folder.path) == tiny(tmp_path)


def _rewrite(folder: RunFolder, text: str) -> None:
    (folder.path / "config.yaml").write_text(text, encoding="utf-8")


def test_what_it_lacks_takes_the_default(tmp_path: Path) -> None:
    """So that folders made before a setting was there can be read."""
    folder = RunFolder(tmp_path)
    _rewrite(folder, "schema_version: 1\ntask: {name: linear, dims: 2}\ntraining: {steps: 7}\n")
    base = Config()
    assert read_config(folder.path) == replace(
        base,
        task=replace(base.task, name="linear", dims=2),
        training=replace(base.training, steps=7),
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("schema_version: 2", "schema_version"),
        ("schema_version: 1\ncolour: red", "colour"),
        ("training: {stepz: 3}", "training.stepz"),
        ("training: {steps: -1}", "training.steps"),
        ("task: linear", "task"),
    ],
)
def test_what_cannot_be_understood_is_refused(text: str, key: str, tmp_path: Path) -> None:
    """A setting of a newer version must not be ignored: the model would be another."""
    folder = RunFolder(tmp_path)
    _rewrite(folder, text)
    with pytest.raises(ConfigError) as refused:
        read_config(folder.path)
    assert refused.value.key == key
    with pytest.raises(ConfigError):
        load_run(tmp_path)


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.getcwd []", "- 1"])
def test_what_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    """Damaged, empty, or made to run something."""
    folder = RunFolder(tmp_path)
    _rewrite(folder, text)
    with pytest.raises(ConfigError, match=f"{tmp_path / 'config.yaml'} cannot be read"):
        read_config(folder.path)


def test_the_environment_is_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create(tiny(tmp_path))
    facts = read_json(folder.path / "environment.json")
    assert facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert {"command", "git_commit", "numpy", "safetensors", "machine", "gpu"} <= facts.keys()
    assert folder.changes(tiny(tmp_path)) == []


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


def test_time_spent_is_counted_over_all_starts(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    interrupted(config, 30)
    folder = run_folder(config)
    folder.write_status("interrupted", 31, seconds=100.0, cpu_seconds=50.0)
    train(config)
    assert 100 < folder.status()["seconds"] < 130
    assert 50 < folder.status()["cpu_seconds"] < 80


def test_there_is_no_pickle(tmp_path: Path) -> None:
    """Nor anything half written."""
    config = tiny(tmp_path)
    train(config)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json", ".yaml", ".jsonl", ""}
    for path in files:
        assert not path.read_bytes().startswith((b"\x80", b"PK\x03\x04")), path
    text = (run_folder(config).path / "config.yaml").read_text()
    assert yaml.safe_load(text)["schema_version"] == 1


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


@pytest.mark.parametrize("text", ["null", '{"state": "finished", "step": "many"}', "{" * 9999])
def test_a_status_that_is_none(text: str, tmp_path: Path) -> None:
    """Neither a state nor a step is made of it."""
    folder = RunFolder(tmp_path)
    (tmp_path / "status.json").write_text(text)
    assert folder.status() == {"state": "unknown", "step": 0}
    (tmp_path / "environment.json").write_text(text)
    folder.changes(tiny(tmp_path))
