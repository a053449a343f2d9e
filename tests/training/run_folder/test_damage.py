"""Damaged checkpoints: recognised, said, and the one before used, to the very same end; config.yaml
is what the weights were trained with, or they are not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.load import load_run
from looplab.training import RunError, train
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from tests.training.tiny import assert_same_bits, interrupted, saved_tensors, tiny


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _lose_tensors(path: Path) -> None:
    path.unlink()


def _finished(folder: Path) -> tuple[Config, Path]:
    """A finished run and the folder of its checkpoints, of steps 50 and 60."""
    config = tiny(folder)
    train(config)
    checkpoints = run_folder(config).checkpoints
    assert saved_steps(checkpoints) == [50, 60]
    return config, checkpoints


@pytest.mark.parametrize("damage", [_cut, _lose_tensors])
def test_the_one_before_is_used(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    damage(checkpoints / "00000060.safetensors")
    assert load_run(run_folder(config).path).step == 50
    capsys.readouterr()
    train(config)
    assert str(checkpoints / "00000060") in capsys.readouterr().out
    assert_same_bits(saved_tensors(config), undisturbed)


def test_without_its_json_it_does_not_count(tmp_path: Path) -> None:
    """As if it had been killed before the JSON was written: nothing to complain of."""
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    (checkpoints / "00000060.json").unlink()
    assert load_run(run_folder(config).path).step == 50
    train(config)
    assert_same_bits(saved_tensors(config), undisturbed)


def test_all_damaged(tmp_path: Path) -> None:
    """Reading refuses and names both; training begins anew and ends as before."""
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    for step in (50, 60):
        _cut(checkpoints / f"{step:08d}.safetensors")
    path = run_folder(config).path
    with pytest.raises(RunError, match=f"{path} has no checkpoint that can be read") as refused:
        load_run(path)
    for step in (50, 60):
        assert str(checkpoints / f"{step:08d}") in str(refused.value)
    train(config)
    assert_same_bits(saved_tensors(config), undisturbed)


def test_all_damaged_then_interrupted(tmp_path: Path) -> None:
    """What is saved on the new way counts, though the damaged ones are of later steps."""
    config, checkpoints = _finished(tmp_path)
    for step in (50, 60):
        _cut(checkpoints / f"{step:08d}.safetensors")
    assert "saved after step 5" in str(interrupted(config, 4))
    assert load_run(run_folder(config).path).step == 5


@pytest.mark.parametrize("name", ["status.json", "environment.json", "metrics.jsonl"])
def test_what_is_only_told_stops_nothing(name: str, tmp_path: Path) -> None:
    """A power failure may damage other files as well: the run goes on without what they said."""
    config = tiny(tmp_path, steps=20)
    interrupted(config, 12)
    (run_folder(config).path / name).write_text('{"step": 1')
    assert train(config).step == 20
    assert run_folder(config).status()["state"] == "finished"


def test_training_writes_a_missing_one(tmp_path: Path) -> None:
    """And says what is wrong with one that cannot be read."""
    config = tiny(tmp_path, steps=20)
    train(config)
    path = run_folder(config).path / "config.yaml"
    whole = path.read_bytes()
    path.unlink()
    assert train(config).step == 20
    assert path.read_bytes() == whole
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        train(config)


def test_another_runs_files_are_not_trained_on(tmp_path: Path) -> None:
    """Copied under the name of a run of other settings."""
    ours, theirs = tiny(tmp_path, steps=20), tiny(tmp_path, steps=40)
    train(ours)
    os.rename(run_folder(ours).path, run_folder(theirs).path)
    with pytest.raises(RunError, match=r"other settings \(training.steps is 20, not 40\)"):
        train(theirs)
    assert saved_tensors(theirs)
