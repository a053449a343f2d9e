"""Damaged checkpoints: recognised, said, and the one before used, to the very same end; config.yaml
is what the weights were trained with, or they are not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.load import load_run
from looplab.training import RunError, train
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from tests.training.tiny import assert_same_bits, interrupted, saved_tensors, tiny


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _spoil_json(path: Path) -> None:
    path.with_suffix(".json").write_text("{")


def _lose_tensors(path: Path) -> None:
    path.unlink()


DAMAGES = [_cut, _flip, _spoil_json, _lose_tensors]


def _finished(folder: Path) -> tuple[Config, Path]:
    """A finished run and the folder of its checkpoints, of steps 50 and 60."""
    config = tiny(folder)
    train(config)
    checkpoints = run_folder(config).checkpoints
    assert saved_steps(checkpoints) == [50, 60]
    return config, checkpoints


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_one_before_is_used(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    damage(checkpoints / "00000060.safetensors")
    capsys.readouterr()
    assert load_run(run_folder(config).path).step == 50
    for line in (capsys.readouterr().out, _retrained(config, capsys)):
        assert str(checkpoints / "00000060") in line
        assert "the one of step 50 is used" in line
    assert_same_bits(saved_tensors(config), undisturbed)


def _retrained(config: Config, capsys: pytest.CaptureFixture[str]) -> str:
    train(config)
    out = capsys.readouterr().out
    assert "resuming from step 50" in out
    return out


def test_without_its_json_it_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it had been killed before the JSON was written: nothing to complain of."""
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    (checkpoints / "00000060.json").unlink()
    capsys.readouterr()
    assert load_run(run_folder(config).path).step == 50
    assert "the one before" not in _retrained(config, capsys)
    assert_same_bits(saved_tensors(config), undisturbed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_damaged(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading refuses and names both; training says so, begins anew and ends as before."""
    config, checkpoints = _finished(tmp_path)
    undisturbed = saved_tensors(config)
    for step in (50, 60):
        damage(checkpoints / f"{step:08d}.safetensors")
    path = run_folder(config).path
    with pytest.raises(RunError, match=f"{path} has no checkpoint that can be read") as refused:
        load_run(path)
    for step in (50, 60):
        assert str(checkpoints / f"{step:08d}") in str(refused.value)
    assert "\n" not in str(refused.value)
    capsys.readouterr()
    train(config)
    out = capsys.readouterr().out
    for step in (50, 60):
        assert str(checkpoints / f"{step:08d}") in out
    assert "step 5/60" in out
    assert_same_bits(saved_tensors(config), undisturbed)


def test_all_damaged_then_interrupted(tmp_path: Path) -> None:
    """What is saved on the new way counts, though the damaged ones are of later steps."""
    config, checkpoints = _finished(tmp_path)
    for step in (50, 60):
        _cut(checkpoints / f"{step:08d}.safetensors")
    assert "saved after step 5" in str(interrupted(config, 4))
    assert load_run(run_folder(config).path).step == 5


def test_all_damaged_is_said_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is none before the oldest: training begins at the beginning, and says that."""
    config, checkpoints = _finished(tmp_path)
    for step in (50, 60):
        _cut(checkpoints / f"{step:08d}.safetensors")
    capsys.readouterr()
    train(config)
    assert capsys.readouterr().out.count("the one before it is used") < 2


@pytest.mark.parametrize("name", ["status.json", "environment.json", "metrics.jsonl"])
@pytest.mark.parametrize("text", ["", '{"step": 1', "\0\0"])
def test_what_is_only_told_stops_nothing(name: str, text: str, tmp_path: Path) -> None:
    """A power failure may damage other files as well: the run goes on without what they said."""
    config = tiny(tmp_path, steps=20)
    interrupted(config, 12)
    (run_folder(config).path / name).write_text(text)
    assert train(config).step == 20
    assert run_folder(config).status()["state"] == "finished"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny(tmp_path_factory.mktemp("trained"), steps=20)
    train(config)
    return run_folder(config).path


@pytest.fixture
def path(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run, its config.yaml."""
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run" / "config.yaml"


def test_comments_and_order_are_the_users(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = yaml.safe_load(path.read_text())
    path.write_text("# mine\n" + yaml.safe_dump(content, sort_keys=True))
    load_run(path.parent)
    assert capsys.readouterr().out == ""


def test_a_folder_that_was_moved_and_renamed(path: Path, tmp_path: Path) -> None:
    moved = path.parent.rename(tmp_path / "elsewhere")
    assert load_run(moved).step == 20


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


@pytest.mark.parametrize(
    "text",
    [
        "task: {settings: 3}",
        "[" * 5000,
        "a: 2020-01-01",
        "1: 2",
        "task: {settings: {1: 2}}",
        "seed: " + "9" * 5000,
    ],
)
def test_without_a_copy_what_is_none_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises((ConfigError, RunError)) as refused:
        load_run(tmp_path)
    assert "\n" not in str(refused.value)


def test_another_runs_files_are_not_trained_on(tmp_path: Path) -> None:
    """Copied under the name of a run of other settings."""
    ours, theirs = tiny(tmp_path, steps=20), tiny(tmp_path, steps=40)
    train(ours)
    os.rename(run_folder(ours).path, run_folder(theirs).path)
    with pytest.raises(RunError, match=r"other settings \(training.steps is 20, not 40\)"):
        train(theirs)
    assert saved_tensors(theirs)
