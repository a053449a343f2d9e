"""config.yaml is what the weights were trained with, or they are not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from reloop.conf.mistakes import ConfigError
from reloop.evaluation.load import load_run
from reloop.training import RunError, train
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import saved_tensors, tiny


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


def test_a_digit_is_another_one(path: Path) -> None:
    path.write_text(path.read_text().replace("b: 4", "b: 5"))
    with pytest.raises(RunError, match=r"no checkpoint that can be read.* of other settings"):
        load_run(path.parent)


def test_comments_and_order_are_the_users(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = yaml.safe_load(path.read_text())
    path.write_text("# mine\n" + yaml.safe_dump(content, sort_keys=True))
    load_run(path.parent)
    assert capsys.readouterr().out == ""


def test_a_folder_that_was_moved_and_renamed(path: Path, tmp_path: Path) -> None:
    moved = path.parent.rename(tmp_path / "elsewhere")
    assert load_run(moved).step == 20


def test_training_writes_it_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny(tmp_path, steps=20)
    train(config)
    path = run_folder(config).path / "config.yaml"
    whole = path.read_bytes()
    for damaged in (b"", whole[:30], b"\xff\xfe", b"[" * 5000):
        path.write_bytes(damaged)
        train(config)
        assert path.read_bytes() == whole
        assert "rewritten" in capsys.readouterr().out
    path.unlink()
    assert train(config).step == 20
    assert path.read_bytes() == whole


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
