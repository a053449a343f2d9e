"""A training that begins with the weights of another run."""

from pathlib import Path

import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
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


def test_mistakes_name_the_setting(tmp_path: Path) -> None:
    first = train(config(tmp_path, "training.steps=0"))
    with pytest.raises(ConfigError, match=r"training\.start_from.*no checkpoint"):
        train(config(tmp_path, "training.steps=0", f"training.start_from={tmp_path / 'none'}"))
    with pytest.raises(ConfigError, match=r"training\.start_from.*Missing key"):
        train(config(tmp_path, "model.n_layer=2", f"training.start_from={first.path}"))
