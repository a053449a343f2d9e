"""The plain step computes what ours does, and trains."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reloop.benchmarks.baseline import Baseline
from reloop.benchmarks.settings import NAMES, Name, at_full_size, named_config
from reloop.conf.schema import Config
from reloop.training.assemble import build_curriculum, build_model, build_task
from reloop.training.objective import loss
from reloop.training.step import Trainer

CPU = torch.device("cpu")


def narrow(name: Name) -> Config:
    """A setting with a small model on few prompts."""
    config = at_full_size(named_config(name))
    return replace(
        config,
        model=replace(config.model, n_embd=16, n_head=2),
        training=replace(config.training, batch_size=4),
    )


@pytest.mark.parametrize("name", NAMES)
def test_with_our_weights_it_has_our_loss(name: Name) -> None:
    config = narrow(name)
    task = build_task(config)
    trainer = Trainer(config, task, build_curriculum(config, task), build_model(config, task))
    weights = {key.removeprefix("loop."): w for key, w in trainer.model.state_dict().items()}
    for weight in weights.values():  # those of a trained model: attention is not flat
        weight.mul_(3)
    baseline = Baseline(config, CPU)
    baseline.model.load_state_dict(weights)
    prompts, stage = trainer.prompts(0, 0), trainer.curriculum(0)
    predictions = trainer.model(prompts, stage.loops, stage.window, grad_loops=stage.grad_loops)
    ours = loss(task.loss, predictions, prompts.ys)
    theirs = baseline.loss(prompts.xs, prompts.ys)
    assert theirs.item() == pytest.approx(ours.item(), rel=1e-5)
    ours.backward()
    theirs.backward()
    plain = dict(baseline.model.named_parameters())
    for key, parameter in trainer.model.named_parameters():
        gradient = plain[key.removeprefix("loop.")].grad
        assert gradient is not None
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["linear", "sparse", "tree", "relu"])
def test_its_functions_have_the_tasks_variance(name: Name) -> None:
    config = narrow(name)
    config = replace(config, training=replace(config.training, batch_size=2000))
    xs, ys = Baseline(config, CPU).sample()
    assert xs.shape == (2000, config.task.points, 20)
    assert ys.var().item() == pytest.approx(build_task(config).divisor, rel=0.1)


def test_a_step_changes_every_weight() -> None:
    baseline = Baseline(narrow("small"), CPU)
    before = [parameter.detach().clone() for parameter in baseline.model.parameters()]
    baseline.step()
    after = baseline.model.parameters()
    assert all((a != b).any() for a, b in zip(before, after, strict=True))
