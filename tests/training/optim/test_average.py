"""The moving average of the weights: what it is, that it is what a run is measured by, and that an
interruption leaves it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from reloop.evaluation import load_run
from reloop.training import train
from reloop.training.optim.average import WeightAverage
from reloop.training.run_folder.checkpoint import newest_checkpoint
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import Crash, after_step, crash, make_trainer, tiny

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


def test_an_interruption_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tiny(tmp_path / "whole", ema_decay=0.9)).model.state_dict()
    with monkeypatch.context() as patch:
        after_step(patch, 37, crash)
        with pytest.raises(Crash):
            train(tiny(tmp_path / "cut", ema_decay=0.9))
    for name, tensor in train(tiny(tmp_path / "cut", ema_decay=0.9)).model.state_dict().items():
        assert torch.equal(tensor, whole[name])


@pytest.mark.parametrize("until", [[25], [7, 8, 59, 70]])
def test_a_training_in_parts_is_the_whole(until: list[int], tmp_path: Path) -> None:
    whole = train(tiny(tmp_path / "whole", ema_decay=0.9))
    config = tiny(tmp_path / "parts", ema_decay=0.9)
    for step in until:
        part = train(config, until=step)
        assert part.step == min(step, config.training.steps)
        state = "finished" if step >= config.training.steps else "interrupted"
        assert run_folder(config).status()["state"] == state
    assert train(config, until=3).step == min(until[-1], 60)  # it has come further
    for name, tensor in train(config).model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name])


def test_without_a_decay_there_is_none(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path))
    assert trainer.average is None
    assert not any(name.startswith("average.") for name in trainer.state())
