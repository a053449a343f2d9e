"""Configurations built in Python that cannot run: one line that names the key, nothing written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
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
        (TaskConfig("linear", 2, 5, -1), "task.distinct_prompts"),
        (TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 0}), "task.sparsity"),
        (TaskConfig("noisy_linear", 2, 5, settings={"noise_std": float("nan")}), "task.noise_std"),
    ],
)
def test_a_task_that_cannot_be(task: TaskConfig, key: str, tmp_path: Path) -> None:
    config = replace(tiny(tmp_path / "runs"), task=task)
    assert _refused(config).key == key


def test_a_wrong_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    config = replace(tiny(tmp_path / "runs"), task=TaskConfig("liner", 2, 5))
    assert "did you mean 'linear'?" in str(_refused(config))


def test_dims_cannot_start_below_what_the_task_makes_sense_in(tmp_path: Path) -> None:
    growth = CurriculumConfig(dims=GrowthConfig(start=0))
    config = replace(tiny(tmp_path / "runs"), curriculum=growth)
    assert _refused(config).key == "curriculum.dims.start"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"training": {"batch_size": 7, "shards": 2}}, "training.shards"),
        ({"training": {"steps": -1}}, "training.steps"),
        ({"training": {"log_every": 0}}, "training.log_every"),
        ({"training": {"checkpoint_every": 0}}, "training.checkpoint_every"),
        ({"training": {"beta1": 1.5}}, "training.beta1"),
        ({"training": {"learning_rate": -1.0}}, "training.learning_rate"),
        ({"task": TaskConfig("linear", 2, 9)}, "task.points"),
        ({"model": ModelConfig(n_embd=15, n_head=2, n_positions=5)}, "model.n_embd"),
        ({"model": ModelConfig("tied", 1, 16, 2, 5, injection="add")}, "model.injection"),
        ({"loops": LoopsConfig(0, 0)}, "loops.b"),
        ({"seed": -1}, "seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_cannot_run(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    """The command line refuses these; who builds a Config in Python gets the same answer."""
    changes = dict(changes)
    config = replace(tiny(tmp_path / "runs", **changes.pop("training", {})), **changes)
    assert _refused(config).key == key
