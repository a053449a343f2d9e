"""A loss or gradient that is not finite: no bad update, a record of it, and the run stops."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import safetensors.torch
import torch

from looplab.conf.build import config_from_mapping
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training import RunError, train
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from tests.training.tiny import (
    assert_same_bits,
    copied,
    make_trainer,
    saved_tensors,
    spoil_ys,
    tiny,
)


@pytest.mark.parametrize(
    ("value", "training", "step"),
    [
        (math.nan, {}, 0),
        (-math.inf, {"clip": 0.5, "weight_decay": 0.1, "warmup": 5}, 3),
        (1e30, {"shards": 2}, 0),
        (2e19, {"clip": 0.5, "shards": 2}, 3),
    ],
)
def test_a_bad_step_changes_nothing(
    value: float,
    training: dict[str, float],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither weights nor Adam's state, decay included; one bad shard is enough. The last two are
    losses that overflow; the last of them has a finite gradient."""
    trainer = make_trainer(tiny(tmp_path, **training))
    shards = trainer.config.training.shards
    spoil_ys(monkeypatch, value, lambda _, at, shard: at == step and shard == shards - 1)
    for good in range(step):
        trainer.update(good)
    before = copied(trainer.state())
    trainer.update(step)
    after = copied(trainer.state())
    assert_same_bits({name: after[name] for name in before}, before)
    assert not any(after[name].any() for name in after.keys() - before.keys())
    trainer.update(step + 1)
    totals = trainer.fetch()
    assert totals.bad_step == step
    assert math.isfinite(totals.loss)
    assert math.isfinite(totals.grad_norm)
    assert all(torch.isfinite(tensor).all() for tensor in trainer.state().values())
    assert not torch.equal(
        trainer.state()["model.read_out.weight"], before["model.read_out.weight"]
    )


@pytest.mark.parametrize("value", [math.nan, 3e38])
def test_a_bad_gradient_of_a_finite_loss(value: float, tmp_path: Path) -> None:
    """One parameter's is enough, or finite ones whose norm is not."""
    trainer = make_trainer(tiny(tmp_path, clip=0.5))
    trainer.update(0)
    before = copied(trainer.state())
    bias = trainer.model.get_parameter("loop.norm.bias")
    hook = bias.register_hook(lambda gradient: torch.full_like(gradient, value))
    trainer.update(1)
    assert_same_bits(trainer.state(), before)
    hook.remove()
    assert trainer.fetch().bad_step == 1


def test_a_large_but_finite_step_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is skipped for its size alone."""
    trainer = make_trainer(tiny(tmp_path))
    before = copied(trainer.state())
    spoil_ys(monkeypatch, 1e18, lambda _, step, shard: True)
    trainer.update(0)
    totals = trainer.fetch()
    assert totals.bad_step is None
    assert 1e33 < totals.loss < math.inf
    assert not torch.equal(trainer.state()["model.read_out.bias"], before["model.read_out.bias"])


def test_the_first_bad_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next fetch starts anew."""
    trainer = make_trainer(tiny(tmp_path))
    spoil_ys(monkeypatch, math.nan, lambda _, step, shard: step in (2, 3, 5))
    for step in range(6):
        trainer.update(step)
    assert trainer.fetch().bad_step == 2
    trainer.update(6)
    assert trainer.fetch().bad_step is None


def test_training_stops_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next log: step, loops, residual norm, the very batch, and the reason in the status."""
    config = tiny(tmp_path, shards=2)
    folder = run_folder(config)
    trainer = make_trainer(config)
    with monkeypatch.context() as patch:
        spoil_ys(patch, math.inf, lambda _, step, shard: (step, shard) == (22, 1))
        batches = [trainer.prompts(22, shard) for shard in (0, 1)]
        with pytest.raises(RunError, match="step 23 gave a loss or gradient") as stopped:
            train(config)
    message = str(stopped.value)
    assert "2 loops, residual norm" in message
    assert "\n" not in message
    status = folder.status()
    assert (status["state"], status["step"], status["reason"]) == ("failed", 25, message)
    path = folder.path / "diverged_00000023.safetensors"
    assert str(path) in message
    batch = safetensors.torch.load_file(path)
    wanted = {f"xs.{shard}": prompts.xs for shard, prompts in enumerate(batches)}
    wanted |= {f"ys.{shard}": prompts.ys for shard, prompts in enumerate(batches)}
    assert_same_bits(batch, wanted)
    assert saved_steps(folder.checkpoints) == [10, 20]
    assert all(torch.isfinite(tensor).all() for tensor in saved_tensors(config).values())
    steps = [json.loads(line)["step"] for line in folder.metrics.read_text().splitlines()]
    assert steps == [5, 10, 15, 20]


def test_a_stopped_run_goes_on_where_the_cause_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tiny(tmp_path / "whole"), tiny(tmp_path / "stopped")
    train(whole)
    with monkeypatch.context() as patch:
        spoil_ys(patch, math.nan, lambda _, step, shard: step == 22)
        with pytest.raises(RunError):
            train(stopped)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    assert run_folder(stopped).status()["state"] == "finished"


def test_of_runs_of_earlier_versions_those_that_stopped_are_read() -> None:
    """They say what they did when they diverged; others went back, which is gone."""
    assert config_from_mapping({"training": {"on_divergence": "stop"}}) == Config()
    with pytest.raises(ConfigError, match=r"training.on_divergence is not supported any more"):
        config_from_mapping({"training": {"on_divergence": "rollback"}})
