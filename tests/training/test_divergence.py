"""A loss or gradient that is not finite: no bad update, a record of it, and the way back; with
on_divergence=rollback to the last checkpoint at half the rate, but not for ever."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from looplab.conf.schema import TaskConfig
from looplab.training import RunError, train
from looplab.training.run_folder.checkpoint import newest_checkpoint, saved_steps
from looplab.training.run_folder.run import run_folder
from looplab.training.step import Trainer
from tests.training.tiny import (
    assert_same_bits,
    copied,
    crashed,
    make_trainer,
    saved_tensors,
    spoil_ys,
    tiny,
)

# The last two are losses that overflow; the last of them has a finite gradient.
BAD = [math.nan, math.inf, -math.inf, 1e30, 2e19]


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize(
    "training",
    [{}, {"clip": 0.5, "weight_decay": 0.1, "warmup": 5}, {"shards": 2}],
    ids=["plain", "clip and decay", "shards"],
)
@pytest.mark.parametrize("value", BAD)
def test_a_bad_step_changes_nothing(
    value: float,
    training: dict[str, float],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither weights nor Adam's state, decay included; one bad shard is enough."""
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


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
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


def test_a_bad_batch_can_be_written_for_every_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """safetensors refuses tensors that are not contiguous, which a task's outputs might be."""
    for name in ("sparse_linear", "noisy_linear", "decision_tree", "relu_network"):
        config = replace(tiny(tmp_path), task=TaskConfig(name, dims=2, points=5))
        with monkeypatch.context() as patch:
            spoil_ys(patch, math.nan, lambda _, step, shard: step == 1)
            with pytest.raises(RunError, match="step 2 gave"):
                train(config)
        assert (run_folder(config).path / "diverged_00000002.safetensors").exists()


def _spoil_above(monkeypatch: pytest.MonkeyPatch, factor: float, bad_step: int = 23) -> list[float]:
    """Break one step while the rate's factor is above `factor`; the factors it was drawn at."""
    factors: list[float] = []
    drawn = itertools.count()

    def breaks(trainer: Trainer, step: int, shard: int) -> bool:
        assert step != bad_step or next(drawn) < 50, "it goes back for ever"
        if step == bad_step and trainer.rate_factor not in factors:
            factors.append(trainer.rate_factor)
        return step == bad_step and trainer.rate_factor > factor

    spoil_ys(monkeypatch, math.nan, breaks)
    return factors


def test_it_goes_back_and_finishes_at_half_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(tmp_path, on_divergence="rollback")
    factors = _spoil_above(monkeypatch, 0.5, bad_step=27)
    rates: dict[int, float] = {}
    update = Trainer.update

    def noted(self: Trainer, step: int) -> None:
        update(self, step)
        rates[step] = float(self.optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(Trainer, "update", noted)
    run = train(config)
    assert factors == [1.0, 0.5]
    assert rates == {
        step: pytest.approx(1e-3 if step < 20 else 5e-4, rel=1e-6) for step in range(60)
    }
    out = capsys.readouterr().out
    assert "step 28 gave a loss or gradient that is not finite" in out
    assert "back to step 20 at 0.5 x the rate" in out
    assert run_folder(config).status()["state"] == "finished"
    assert (run.path / "diverged_00000028.safetensors").exists()
    tensors = saved_tensors(config)
    assert float(tensors["rate_factor"]) == 0.5
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    steps = [json.loads(line)["step"] for line in run.path.joinpath("metrics.jsonl").open()]
    assert steps == list(range(5, 65, 5))


def test_it_goes_back_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(tmp_path, on_divergence="rollback")
    assert _spoil_above(monkeypatch, 0.125) == []
    train(config)
    assert float(saved_tensors(config)["rate_factor"]) == 0.125


def test_back_to_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first checkpoint there is the one of step 0."""
    config = tiny(tmp_path, on_divergence="rollback")
    _spoil_above(monkeypatch, 0.5, bad_step=2)
    train(config)
    assert float(saved_tensors(config)["rate_factor"]) == 0.5


def test_the_rate_stays_lowered_when_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the way back, before and after the next checkpoint: the same end."""
    whole = tiny(tmp_path / "whole", on_divergence="rollback")
    _spoil_above(monkeypatch, 0.5)
    train(whole)
    for step in (26, 32):
        stopped = tiny(tmp_path / f"stopped{step}", on_divergence="rollback")
        crashed(stopped, step)
        train(stopped)
        assert_same_bits(saved_tensors(stopped), saved_tensors(whole))


def test_it_ends_where_no_rate_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(tmp_path, on_divergence="rollback")
    factors = _spoil_above(monkeypatch, 0.0)
    with pytest.raises(RunError, match="diverges at any rate; the last checkpoint is intact"):
        train(config)
    assert factors == [2.0**-halved for halved in range(11)]
    checkpoint, problems = newest_checkpoint(run_folder(config).checkpoints)
    assert checkpoint is not None
    assert (checkpoint.step, problems) == (20, [])


def test_where_no_rate_helps_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path, on_divergence="rollback")
    _spoil_above(monkeypatch, 0.0)
    with pytest.raises(RunError):
        train(config)
    status = run_folder(config).status()
    assert status["state"] == "failed"
    assert "step 24" in status["reason"]
