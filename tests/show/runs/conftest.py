"""Three small runs that the tests of this folder read and do not change."""

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.show.evaluate import evaluate
from looplab.training import train
from tests.conftest import tiny_config


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sparse runs, of which the first is evaluated, and a linear one of more steps in a folder
    of its own."""
    path = tmp_path_factory.mktemp("listed")
    config = tiny_config(path)
    first = train(config)
    evaluate(first, EvaluationConfig(prompts=32, resamples=20, batch_size=32, baselines=()))
    train(replace(config, seed=1))
    linear = replace(config.task, name="linear", settings={})
    more = replace(config.training, steps=50)
    train(replace(config, task=linear, training=more, folder=str(path / "more")))
    return path
