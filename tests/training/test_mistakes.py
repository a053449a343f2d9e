"""Configurations built in Python that cannot run: one line that names the key, nothing written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import (
    Config,
    ModelConfig,
    TaskConfig,
)
from looplab.training import train
from tests.training.tiny import tiny


def _refused(config: Config) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        train(config)
    assert "\n" not in str(refused.value)
    assert not Path(config.folder).exists()
    return refused.value


@pytest.mark.parametrize(
    ("task", "key"),
    [
        (TaskConfig("liner", 2, 5), "task"),
        (TaskConfig("linear", 2, 5, settings={"sparsity": 2}), "task.sparsity"),
        (TaskConfig("linear", 0, 5), "task.dims"),
        (TaskConfig("noisy_linear", 2, 5, settings={"noise_std": float("nan")}), "task.noise_std"),
    ],
)
def test_a_task_that_cannot_be(task: TaskConfig, key: str, tmp_path: Path) -> None:
    config = replace(tiny(tmp_path / "runs"), task=task)
    assert _refused(config).key == key


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"training": {"batch_size": 7, "shards": 2}}, "training.shards"),
        ({"training": {"steps": -1}}, "training.steps"),
        ({"task": TaskConfig("linear", 2, 9)}, "task.points"),
        ({"model": ModelConfig(n_embd=15, n_head=2, n_positions=5)}, "model.n_embd"),
        ({"seed": -1}, "seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_cannot_run(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    """The command line refuses these; who builds a Config in Python gets the same answer."""
    changes = dict(changes)
    config = replace(tiny(tmp_path / "runs", **changes.pop("training", {})), **changes)
    assert _refused(config).key == key
