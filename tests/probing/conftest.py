"""What tests of probing a run share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reloop.probing.settings import ProbingSettings
from reloop.training import Run, train
from tests.conftest import tiny_config

SETTINGS = ProbingSettings(
    run="given", steps=6, batch_size=16, prompts=40, resamples=20, seeds=2, device="cpu"
)


@pytest.fixture
def linear_run(tmp_path: Path) -> Run:
    """A finished run of dense linear functions, for which there is a control."""
    config = tiny_config(tmp_path)
    return train(replace(config, task=replace(config.task, name="linear", settings={})))
