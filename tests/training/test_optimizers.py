"""Adam's groups, its rule and its rate."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from conf.schema import ModelConfig, TrainingConfig
from models import Model, ModelSpec
from training.optimizers import learning_rate, make_optimizer

from .tiny import make_trainer, tiny


def _model(family: str = "looped") -> Model:
    injection = ModelConfig.injection if family == "looped" else "none"
    spec = ModelSpec(
        dims=2, family=family, n_layer=2, n_embd=16, n_head=2, n_positions=5, injection=injection
    )
    return Model(spec, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("family", ["looped", "tied", "standard"])
def test_weights_decay_and_nothing_else(family: str) -> None:
    """Not biases, not norms (whose weights are weights by name), not positions."""
    model = _model(family)
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.1))
    decay = {
        parameter: group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert decay.keys() == set(model.parameters())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(decay)
    for name, parameter in model.named_parameters():
        is_weight = parameter.ndim == 2 and not name.endswith("positions")
        assert decay[parameter] == (0.1 if is_weight else 0.0), name


def test_the_decay_is_decoupled() -> None:
    """With a gradient of zero a weight shrinks by rate x decay, and a bias stands (AdamW)."""
    model = _model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.1, learning_rate=0.01))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name in ("read_in.weight", "loop.blocks.1.qkv.weight", "read_out.weight"):
        torch.testing.assert_close(model.get_parameter(name), before[name] * (1 - 0.01 * 0.1))
    for name in ("read_in.bias", "loop.norm.weight", "loop.positions"):
        assert torch.equal(model.get_parameter(name), before[name])


def test_without_decay_it_is_adam() -> None:
    """Three steps against Kingma and Ba's rule in float64."""
    training = TrainingConfig(learning_rate=1e-2, beta1=0.8, beta2=0.95)
    model, generator = _model(), torch.Generator().manual_seed(1)
    optimizer = make_optimizer(model, training)
    parameters = list(model.parameters())
    expected = [p.detach().double() for p in parameters]
    moments: list[list[Tensor]] = [[torch.zeros_like(e) for e in expected] for _ in range(2)]
    for step in range(1, 4):
        for index, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient
            first, second = moments[0][index], moments[1][index]
            first.mul_(0.8).add_(0.2 * gradient.double())
            second.mul_(0.95).add_(0.05 * gradient.double() ** 2)
            mean, spread = first / (1 - 0.8**step), second / (1 - 0.95**step)
            expected[index] -= 1e-2 * mean / (spread.sqrt() + 1e-8)
        optimizer.step()
    for parameter, wanted in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.double(), wanted, rtol=0, atol=1e-6)


def test_the_rate_reaches_both_groups(tmp_path: Path) -> None:
    """It is one tensor, written in place, so that no step waits for it."""
    trainer = make_trainer(tiny(tmp_path, warmup=4, weight_decay=0.1))
    tensors = [group["lr"] for group in trainer.optimizer.param_groups]
    trainer.update(1)
    assert [float(tensor) for tensor in tensors] == pytest.approx([5e-4, 5e-4])
    assert all(
        group["lr"] is tensor
        for group, tensor in zip(trainer.optimizer.param_groups, tensors, strict=True)
    )


def test_the_rate_is_constant_by_default() -> None:
    training = TrainingConfig(steps=10, learning_rate=0.5)
    assert [learning_rate(training, step) for step in range(10)] == [0.5] * 10


def test_the_rate_warms_up_stands_and_falls() -> None:
    """Never zero in a step that is made; it would be at the step after the last."""
    training = TrainingConfig(steps=20, learning_rate=2.0, warmup=4, decay=0.25)
    rates = [learning_rate(training, step) for step in range(21)]
    assert rates[:4] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert rates[4:16] == [2.0] * 12
    assert rates[15:] == pytest.approx([2.0, 1.6, 1.2, 0.8, 0.4, 0.0])


def test_warm_up_and_decay_may_overlap() -> None:
    """The rate is then the product of both."""
    training = TrainingConfig(steps=10, learning_rate=1.0, warmup=10, decay=1.0)
    for step in range(10):
        wanted = (step + 1) / 10 * (10 - step) / 10
        assert math.isclose(learning_rate(training, step), wanted)
