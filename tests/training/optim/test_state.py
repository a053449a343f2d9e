"""What is kept beside the weights: by an optimiser, by name and untouched by a bad step, and their
moving average, by which a run is measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from looplab.conf.saved import read_config
from looplab.evaluation import load_run
from looplab.training import train
from looplab.training.optim.optimizers import WeightAverage
from looplab.training.run_folder.checkpoint import Checkpoint, newest_checkpoint
from looplab.training.run_folder.run import run_folder
from tests.conftest import HOME
from tests.training.tiny import assert_same_bits, copied, make_trainer, spoil_ys, tiny

OPTIMIZERS = ["adam", "adamw", "muon"]
(_OLD,) = (HOME / "tests" / "fixtures").iterdir()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_bad_step_changes_nothing(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither weights nor Adam's moments nor Muon's momentum, decay included; and the next step is
    the one that would have been without it."""
    config = tiny(tmp_path, optimizer=optimizer, weight_decay=0.1, clip=0.5)
    trainer, spared = make_trainer(config), make_trainer(config)
    spoil_ys(monkeypatch, math.nan, lambda _, step, shard: step == 3)
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
    wanted = set[str]()
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
    kept = dict(checkpoint.tensors)
    assert float(kept.pop("rate_factor")) == 1  # of a setting that is gone
    assert_same_bits(trainer.state(), kept)


def test_a_checkpoint_without_momentum_is_none_of_muon_s(tmp_path: Path) -> None:
    adamw, muon = (make_trainer(tiny(tmp_path, optimizer=name)) for name in ("adamw", "muon"))
    adamw.update(0)
    with pytest.raises(KeyError, match=r"muon\.momentum_buffer"):
        muon.load(Checkpoint(1, adamw.state()))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_is_not_written_into(optimizer: str, tmp_path: Path) -> None:
    """It may be loaded again."""
    trainer = make_trainer(tiny(tmp_path, optimizer=optimizer))
    trainer.update(0)
    checkpoint = Checkpoint(1, copied(trainer.state()))
    trainer.load(checkpoint)
    before = copied(checkpoint.tensors)
    trainer.update(1)
    assert_same_bits(checkpoint.tensors, before)
    assert not torch.equal(trainer.state()["model.read_out.bias"], before["model.read_out.bias"])


_GOOD, _BAD = torch.tensor(False), torch.tensor(True)


def test_it_is_the_exponential_average_of_the_weights() -> None:
    model = nn.Linear(2, 3)
    average = WeightAverage(model, decay=0.9)
    wanted = model.weight.detach().clone().double()
    for number in range(1, 200):
        with torch.no_grad():
            model.weight.normal_()
        average.update(torch.tensor(float(number), dtype=torch.float64), _GOOD)
        decay = min(0.9, number / (number + 9))
        wanted = decay * wanted + (1 - decay) * model.weight.detach()
    torch.testing.assert_close(average.averages[0], wanted.float())


def test_a_step_that_broke_is_no_part_of_it() -> None:
    model = nn.Linear(2, 3)
    average = WeightAverage(model, decay=0.9)
    before = [tensor.clone() for tensor in average.averages]
    with torch.no_grad():
        model.weight.add_(1)
    average.update(torch.tensor(1.0), _BAD)
    assert all(map(torch.equal, average.averages, before))


def test_a_run_is_measured_by_the_average_and_goes_on_from_the_weights(tmp_path: Path) -> None:
    config = tiny(tmp_path, ema_decay=0.95)
    run = train(config)
    checkpoint, _ = newest_checkpoint(run_folder(config).checkpoints)
    assert checkpoint is not None
    averages, last = checkpoint.weights(), checkpoint.last_weights()
    loaded = load_run(run.path).model.state_dict()
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, averages[name])
        assert torch.equal(loaded[name], averages[name])
    assert any(not torch.equal(averages[name], last[name]) for name in last)
    plain = train(tiny(tmp_path)).model.state_dict()
    for name, tensor in plain.items():
        torch.testing.assert_close(tensor, last[name], rtol=0, atol=0)


def test_a_training_in_parts_is_the_whole(tmp_path: Path) -> None:
    whole = train(tiny(tmp_path / "whole", ema_decay=0.9))
    config = tiny(tmp_path / "parts", ema_decay=0.9)
    for step in (7, 8, 59, 70):
        part = train(config, until=step)
        assert part.step == min(step, config.training.steps)
        state = "finished" if step >= config.training.steps else "interrupted"
        assert run_folder(config).status()["state"] == state
    assert train(config, until=3).step == 60  # it has come further
    for name, tensor in train(config).model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name])
