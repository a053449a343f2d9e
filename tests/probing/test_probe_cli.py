"""What `python -m probing` takes and what it refuses, in one line and with nothing kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import ModelConfig
from looplab.evaluation.load import load_run
from looplab.probing.__main__ import main
from looplab.probing.probe import probe
from looplab.training import Run, train
from tests.conftest import tiny_config
from tests.probing.conftest import SETTINGS


def test_what_cannot_be_probed_is_refused(tmp_path: Path, linear_run: Run) -> None:
    with pytest.raises(ConfigError, match="targets cannot hold support"):
        probe(linear_run, replace(SETTINGS, targets=("support",)))
    model = ModelConfig("standard", 2, n_embd=16, n_head=2, n_positions=7, injection="none")
    standard = replace(tiny_config(tmp_path), model=model)
    standard = replace(standard, training=replace(standard.training, steps=1))
    with pytest.raises(ConfigError, match="loops is 3, but this model has weights for 2 and no"):
        probe(train(standard), replace(SETTINGS, loops=3))
    assert not (linear_run.path / "probing.json").exists()


def test_one_command(linear_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"run={linear_run.path}", "steps=2", "batch_size=8", "prompts=20", "resamples=5"]
    assert main(words) == 0
    assert "w_OLS: mean over lengths 1 to 7" in capsys.readouterr().out
    assert main([*words, "targets=[wieghts]"]) == 2
    assert "did you mean 'weights'" in capsys.readouterr().err
    assert load_run(linear_run.path).step == 40
