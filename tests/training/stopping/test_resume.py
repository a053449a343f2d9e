"""A run that was stopped and started again ends, bit for bit, as one that was not."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
)
from looplab.evaluation import load_run
from looplab.training import train
from looplab.training.assemble import build_model
from looplab.training.run_folder.run import RunFolder
from tests.training.tiny import assert_same_bits, crashed, interrupted, saved_tensors, tiny

_GROWTH = CurriculumConfig(
    dims=GrowthConfig(start=1, intervals=(14, 20)),
    points=GrowthConfig(start=3, intervals=(25,)),
    loops=GrowthConfig(inc=1, intervals=(16,)),
)
SLOW = pytest.mark.slow
_SHOWN = ("muon, factored", "jacobian", "growth", "text")  # between them all that a state holds
_VARIANTS: dict[str, dict[str, Any]] = {
    "adam": {"training": {"optimizer": "adam", "weight_decay": 0.1, "epsilon": 1e-6}},
    "muon, factored": {
        "training": {"optimizer": "muon"},
        "model": ModelConfig("looped", 2, 16, 2, 5, residual_scaling="factored"),
    },
    "jacobian": {"training": {"jacobian_penalty": 0.1, "shards": 2}},
    "growth": {"curriculum": _GROWTH},
    "drawn": {"loops": LoopsConfig(4, 2, "half", "poisson_lognormal")},
    "distinct": {"task": TaskConfig("linear", dims=2, points=5, distinct_prompts=4)},
    "text": {
        "task": TaskConfig("language", dims=1, points=6),
        "model": ModelConfig("looped", 1, 16, 2, 6, block="flt", softcap=15.0),
        "training": {"optimizer": "muon", "embedding_rate": 0.02, "head_rate": 0.005},
    },
    "standard": {"model": ModelConfig("standard", 2, 16, 2, 5, injection="none")},
}


def _variant(name: str, folder: Path) -> Config:
    changes = dict(_VARIANTS[name])
    return replace(tiny(folder, **changes.pop("training", {})), **changes)


@pytest.mark.parametrize(
    "name", [name if name in _SHOWN else pytest.param(name, marks=SLOW) for name in _VARIANTS]
)
def test_stopped_run_ends_as_undisturbed(name: str, tmp_path: Path) -> None:
    """One crash, which goes on from the last checkpoint, and one signal, which saves first."""
    whole, stopped = _variant(name, tmp_path / "whole"), _variant(name, tmp_path / "stopped")
    train(whole)
    crashed(stopped, 17)
    interrupted(stopped, 32)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))


@pytest.mark.parametrize("step", [0, 9, 59])
def test_crash_at_the_edges(step: int, tmp_path: Path) -> None:
    """The first and the last step, and both sides of a checkpoint."""
    whole, stopped = tiny(tmp_path / "whole"), tiny(tmp_path / "stopped")
    train(whole)
    crashed(stopped, step)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))


def test_interrupted_after_every_step(tmp_path: Path) -> None:
    """Saved and loaded again at each of its steps: whatever the state lacks would show."""
    settings: dict[str, Any] = {"steps": 12, "clip": 0.5, "warmup": 5, "weight_decay": 0.1}
    settings["optimizer"] = "muon"  # with AdamW beside it
    whole, stopped = tiny(tmp_path / "whole", **settings), tiny(tmp_path / "stopped", **settings)
    train(whole)
    for step in range(11):
        assert f"after step {step + 1};" in str(interrupted(stopped, step, signal.SIGTERM))
    run = train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    kept = saved_tensors(whole)
    assert_same_bits(weights, {name: kept[name] for name in weights})


def test_how_often_it_saves_and_logs_changes_nothing(tmp_path: Path) -> None:
    whole, other = tiny(tmp_path / "a"), tiny(tmp_path / "b", checkpoint_every=7, log_every=60)
    train(whole)
    train(other)
    assert_same_bits(saved_tensors(other), saved_tensors(whole))


def test_a_run_of_no_steps_is_finished_and_fresh(tmp_path: Path) -> None:
    config = tiny(tmp_path, steps=0)
    run = train(config)
    assert RunFolder(run.path).status()["state"] == "finished"
    fresh = build_model(config, run.task).state_dict()
    for weights in (run.model.state_dict(), load_run(run.path).model.state_dict()):
        assert weights.keys() == fresh.keys()
        assert all(torch.equal(weights[name], fresh[name]) for name in fresh)
