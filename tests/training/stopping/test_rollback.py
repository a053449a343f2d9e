"""on_divergence=rollback: back to the last checkpoint at half the rate, but not for ever."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
import torch

from reloop.training import RunError, train
from reloop.training.run_folder.checkpoint import newest_checkpoint
from reloop.training.run_folder.run import run_folder
from reloop.training.step import Trainer
from tests.training.tiny import (
    Crash,
    after_step,
    assert_same_bits,
    crash,
    saved_tensors,
    spoil_ys,
    tiny,
)


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
        with monkeypatch.context() as patch:
            after_step(patch, step, crash)
            with pytest.raises(Crash):
                train(stopped)
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
