"""A training that begins with the weights of another run."""

import shutil
from pathlib import Path

import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.remarks import remarks
from looplab.training import train


def config(folder: Path, *words: str) -> Config:
    sizes = ("task=linear", "task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=2")
    return Config.of(*sizes, f"folder={folder}", *words)


def test_it_begins_with_the_weights_that_are_evaluated(tmp_path: Path) -> None:
    first = train(config(tmp_path, "training.steps=3"))
    begun = train(config(tmp_path, "training.steps=0", f"training.start_from={first.path}"))
    assert begun.path != first.path
    for name, weights in first.model.state_dict().items():
        assert torch.equal(begun.model.state_dict()[name], weights)


def test_a_run_says_that_its_start_has_changed_and_outlives_it(tmp_path: Path) -> None:
    first = train(config(tmp_path, "training.steps=3"))
    words = ("training.steps=1", f"training.start_from={first.path}")
    begun = train(config(tmp_path, *words))
    assert not any("began with" in line for line in remarks(begun))
    other = train(config(tmp_path, "training.steps=3", "seed=1"))
    shutil.rmtree(first.path)
    other.path.rename(first.path)
    assert any("began with other weights" in line for line in remarks(begun))
    shutil.rmtree(first.path)
    again = train(config(tmp_path, *words))  # found, without its start
    assert torch.equal(again.model.read_in.weight, begun.model.read_in.weight)
    assert not any("began with" in line for line in remarks(again))


def test_mistakes_name_the_setting(tmp_path: Path) -> None:
    first = train(config(tmp_path, "training.steps=0"))
    with pytest.raises(ConfigError, match=r"training\.start_from.*no checkpoint"):
        train(config(tmp_path, "training.steps=0", f"training.start_from={tmp_path / 'none'}"))
    with pytest.raises(ConfigError, match=r"training\.start_from.*Missing key"):
        train(config(tmp_path, "model.n_layer=2", f"training.start_from={first.path}"))
