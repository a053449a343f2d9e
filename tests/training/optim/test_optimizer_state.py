"""What an optimiser remembers: kept by name, and untouched by a bad step."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from reloop.conf.saved import read_config
from reloop.training.run_folder.checkpoint import Checkpoint, newest_checkpoint
from tests.conftest import HOME
from tests.training.tiny import assert_same_bits, copied, make_trainer, spoil_ys, tiny

OPTIMIZERS = ["adam", "adamw", "muon"]
(_OLD,) = (HOME / "tests" / "fixtures").iterdir()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_bad_step_changes_nothing(
    optimizer: str, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither weights nor Adam's moments nor Muon's momentum, decay included; and the next step is
    the one that would have been without it."""
    config = tiny(tmp_path, optimizer=optimizer, weight_decay=0.1, clip=0.5)
    trainer, spared = make_trainer(config), make_trainer(config)
    spoil_ys(monkeypatch, value, lambda _, step, shard: step == 3)
    for step in range(3):
        trainer.update(step)
        spared.update(step)
    before = copied(trainer.state())
    trainer.update(3)
    assert_same_bits(trainer.state(), before)
    trainer.update(4)
    spared.update(4)
    assert_same_bits(trainer.state(), spared.state())
    assert not torch.equal(
        trainer.state()["model.loop.blocks.0.qkv.weight"], before["model.loop.blocks.0.qkv.weight"]
    )
    assert trainer.fetch().bad_step == 3


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_is_saved_has_these_names(optimizer: str, tmp_path: Path) -> None:
    """Adam's moments and step of what it moves, Muon's momentum of the matrices, each whole."""
    trainer = make_trainer(tiny(tmp_path, optimizer=optimizer))
    trainer.update(0)
    wanted = {"rate_factor"}
    for name, parameter in trainer.model.named_parameters():
        wanted.add(f"model.{name}")
        on_muon = optimizer == "muon" and ".blocks." in name and parameter.ndim == 2
        keys = ["momentum_buffer"] if on_muon else ["step", "exp_avg", "exp_avg_sq"]
        for key in keys:
            saved = f"{'muon' if on_muon else 'adam'}.{key}.{name}"
            wanted.add(saved)
            shape = torch.Size() if key == "step" else parameter.shape
            assert trainer.state()[saved].shape == shape
    assert trainer.state().keys() == wanted


def test_an_older_checkpoint_is_gone_on_from() -> None:
    """One of a run that knew of no other optimiser."""
    checkpoint, _ = newest_checkpoint(_OLD / "checkpoints")
    assert checkpoint is not None
    assert "adam.exp_avg_sq.loop.blocks.0.qkv.weight" in checkpoint.tensors
    trainer = make_trainer(read_config(_OLD))
    trainer.load(checkpoint)
    assert_same_bits(trainer.state(), checkpoint.tensors)


def test_a_checkpoint_without_momentum_is_none_of_muon_s(tmp_path: Path) -> None:
    adamw, muon = (make_trainer(tiny(tmp_path, optimizer=name)) for name in ("adamw", "muon"))
    adamw.update(0)
    with pytest.raises(KeyError, match=r"muon\.momentum_buffer"):
        muon.load(Checkpoint(1, adamw.state()))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_is_not_written_into(optimizer: str, tmp_path: Path) -> None:
    """It may be loaded again, as after a rollback."""
    trainer = make_trainer(tiny(tmp_path, optimizer=optimizer))
    trainer.update(0)
    checkpoint = Checkpoint(1, copied(trainer.state()))
    trainer.load(checkpoint)
    before = copied(checkpoint.tensors)
    trainer.update(1)
    assert_same_bits(checkpoint.tensors, before)
    assert not torch.equal(trainer.state()["model.read_out.bias"], before["model.read_out.bias"])
