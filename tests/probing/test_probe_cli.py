"""What `python -m probing` takes and what it refuses, in one line and with nothing kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import CurriculumConfig, GrowthConfig
from looplab.evaluation import load_run
from looplab.probing.__main__ import main
from looplab.probing.probe import probe
from looplab.training import Run, RunError, train
from looplab.training.run_folder.run import RunFolder
from tests.conftest import tiny_config
from tests.probing.conftest import SETTINGS


def test_what_cannot_be_probed_is_refused(tmp_path: Path, linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="targets cannot hold support"):
        probe(linear_run, replace(SETTINGS, targets=("support",)))
    config = tiny_config(tmp_path)
    grows = CurriculumConfig(dims=GrowthConfig(start=1, intervals=(1000,)))
    young = train(replace(config, curriculum=grows))
    with pytest.raises(RunError, match="trained on 1 of 3 dimensions"):
        probe(young, SETTINGS)
    (linear_run.path / "checkpoints" / "00000040.json").unlink()
    with pytest.raises(RunError, match="is not finished: 20 of 40 steps"):
        probe(load_run(linear_run.path), SETTINGS)
    assert not (linear_run.path / "probing.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "run must name the run folder"),
        ("run=nowhere", "nowhere is no run folder"),
        ("run=x stpes=3", "stpes is not a setting; did you mean 'steps'"),
        ("run=x steps=0", "steps must be at least 1"),
        ("run=x protocol=papr", "protocol cannot be 'papr'; did you mean 'paper'"),
        ("run=x learning_rate=0", "learning_rate must be above 0"),
        ("run=x targets=[]", "targets must hold at least one"),
    ],
)
def test_a_mistake_is_one_line(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_one_command(linear_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"run={linear_run.path}", "steps=2", "batch_size=8", "prompts=20", "resamples=5"]
    assert main(words) == 0
    assert "w_OLS: mean over lengths 1 to 7" in capsys.readouterr().out
    assert main([*words, "targets=[wieghts]"]) == 2
    assert "did you mean 'weights'" in capsys.readouterr().err
    assert load_run(linear_run.path).step == 40


def test_a_run_that_someone_works_on_is_left_alone(linear_run: Run) -> None:
    with (
        RunFolder(linear_run.path).lock("probing"),
        pytest.raises(RunError, match="being worked on"),
    ):
        probe(linear_run, SETTINGS)


def test_a_curriculum_that_ends_with_the_training_is_not_complete(tmp_path: Path) -> None:
    """Step 40, of which the points would be all, is the first that is not made."""
    config = tiny_config(tmp_path)
    grows = CurriculumConfig(points=GrowthConfig(start=5, inc=2, intervals=(40,)))
    run = train(replace(config, curriculum=grows))
    with pytest.raises(RunError, match="and 5 of 7 points only"):
        probe(run, SETTINGS)


def test_errors_that_are_not_finite_are_told_and_not_kept(linear_run: Run) -> None:
    with pytest.raises(RunError, match="errors that are not finite"):
        probe(linear_run, replace(SETTINGS, learning_rate=1e30))
    assert not (linear_run.path / "probing.json").exists()


@pytest.mark.parametrize(("word", "rate"), [("paper", 5e-3), ("reference", 1e-3)])
def test_without_another_rate_it_is_the_protocols(linear_run: Run, word: str, rate: float) -> None:
    few = [f"run={linear_run.path}", "steps=1", "prompts=20", "resamples=5"]
    assert main([*few, f"protocol={word}"]) == 0
    kept = json.loads((linear_run.path / "probing.json").read_text())
    assert kept["settings"]["learning_rate"] == rate
