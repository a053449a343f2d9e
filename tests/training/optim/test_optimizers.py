"""Which parameter is moved how: groups, rates over a run and in stacks whose branches shrink with
their depth, epsilon and decay of each optimiser."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import Config, ModelConfig, TrainingConfig
from looplab.models import Model, ModelSpec
from looplab.models.blocks.parameters import Role
from looplab.training.optim.muon import Muon
from looplab.training.optim.optimizers import (
    Optimizer,
    learning_rate,
    make_optimizer,
    multiplier,
)
from tests.training.tiny import make_trainer, tiny

_GOOD = torch.tensor(False)
OPTIMIZERS = ["adam", "adamw", "muon"]


def _model() -> Model:
    spec = ModelSpec(dims=2, n_layer=2, n_embd=16, n_head=2, n_positions=5, injection="add")
    return Model(spec, torch.Generator().manual_seed(0))


def _make(model: Model, **training: Any) -> Optimizer:
    return make_optimizer(model, Config(training=TrainingConfig(**training)))


class _Settings(NamedTuple):
    rate: float
    decay: float
    epsilon: float | None  # None: Muon's


def _settings(model: Model, optimizer: Optimizer) -> dict[str, _Settings]:
    """What each parameter, by name, is moved with."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    settings = {
        names[parameter]: _Settings(float(group["lr"]), group["weight_decay"], group.get("eps"))
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert settings.keys() == set(names.values())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)
    return settings


_MATRICES = {
    f"loop.blocks.{layer}.{name}.weight"
    for layer in (0, 1)
    for name in ("qkv", "projection", "expand", "contract")
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_factored_stack_has_its_multipliers(optimizer: str) -> None:
    """Three layers of twelve: twice the rate and epsilon within, the same decay."""
    model = _model()
    config = Config(
        model=ModelConfig(n_layer=3, residual_scaling="factored"),
        training=TrainingConfig(
            optimizer=optimizer,  # type: ignore[arg-type]
            learning_rate=0.25,
            muon_rate=0.5,
            epsilon=1e-3,
            weight_decay=0.1,
        ),
    )
    for name, settings in _settings(model, make_optimizer(model, config)).items():
        factor = 2 if name.startswith("loop.blocks.") else 1
        decay = 0.1 if name in _MATRICES | {"read_in.weight", "read_out.weight"} else 0.0
        rate, epsilon = (
            (0.5, None) if optimizer == "muon" and name in _MATRICES else (0.25, 1e-3 * factor)
        )
        assert settings == (rate * factor, decay, epsilon), name


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_it_is_adam(optimizer: str, decay: float) -> None:
    """Three steps against Kingma and Ba's rule in float64; adam adds a weight's decay to its
    gradient, adamw to its step."""
    model, generator = _model(), torch.Generator().manual_seed(1)
    made = _make(
        model,
        **{"learning_rate": 1e-2, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-2},
        **{"optimizer": optimizer, "weight_decay": decay},
    )
    decays = {name: settings.decay for name, settings in _settings(model, made).items()}
    expected = {name: p.detach().double() for name, p in model.named_parameters()}
    first = {name: torch.zeros_like(e) for name, e in expected.items()}
    second = {name: torch.zeros_like(e) for name, e in expected.items()}
    for step in range(1, 4):
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            gradient: Tensor = parameter.grad.double()
            if optimizer == "adam":
                gradient = gradient + decays[name] * expected[name]
            else:
                expected[name] *= 1 - 1e-2 * decays[name]
            first[name].mul_(0.8).add_(0.2 * gradient)
            second[name].mul_(0.95).add_(0.05 * gradient**2)
            mean, spread = first[name] / (1 - 0.8**step), second[name] / (1 - 0.95**step)
            expected[name] -= 1e-2 * mean / (spread.sqrt() + 1e-2)
        made.step(_GOOD)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.double(), expected[name], rtol=0, atol=1e-6)


def test_rates_follow_their_peaks_in_place(tmp_path: Path) -> None:
    """Written where they are, so that no step waits for them and a captured one sees them."""
    config = tiny(tmp_path, warmup=4, weight_decay=0.1, optimizer="muon", muon_rate=0.2)
    trainer = make_trainer(replace(config, model=replace(config.model, n_layer=3)))
    factored = replace(config.model, n_layer=3, residual_scaling="factored")
    scaled = make_trainer(replace(config, model=factored))
    for made, wanted in ((trainer, [5e-4, 0.1]), (scaled, [5e-4, 1e-3, 0.2])):
        tensors = [group["lr"] for group in made.optimizer.param_groups]
        made.update(1)
        rates = {round(float(tensor), 9) for tensor in tensors}
        assert sorted(rates) == pytest.approx(wanted)
        groups = zip(made.optimizer.param_groups, tensors, strict=True)
        assert all(group["lr"] is tensor for group, tensor in groups)


def test_momentum_follows_the_step_in_place(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path, optimizer="muon", steps=1000))
    muon = trainer.optimizer.muon
    assert isinstance(muon, Muon)
    place = muon.momentum
    for step, wanted in ((0, 0.85), (150, 0.9), (400, 0.95)):
        trainer.optimizer.prepare(step)
        assert float(place) == pytest.approx(wanted)


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


def test_another_peak_has_the_same_shape() -> None:
    training = TrainingConfig(steps=20, learning_rate=2.0, warmup=4, decay=0.25, decay_to=0.1)
    for step in range(21):
        ours = learning_rate(training, step, 0.03)
        assert math.isclose(ours, 0.015 * learning_rate(training, step))


# The three papers' settings: what differs from the defaults, and the fraction of the peak at steps
# of their own, the corners among them.
_STABLE_DECAY = {"steps": 20_000, "warmup": 500, "decay": 0.05}  # arXiv 2606.18524
_TRAPEZOID = {"steps": 5_000, "decay": 0.2}  # arXiv 2605.18797
_TO_A_TENTH = {"steps": 1_000, "decay": 1.0, "decay_to": 0.1}  # arXiv 2604.21106
_NAMED = [
    *((_STABLE_DECAY, step, (step + 1) / 500) for step in (0, 1, 250, 498)),
    *((_STABLE_DECAY, step, 1.0) for step in (499, 500, 10_000, 18_999, 19_000)),
    *((_STABLE_DECAY, 19_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TRAPEZOID, step, 1.0) for step in (0, 1, 3_999, 4_000)),
    *((_TRAPEZOID, 4_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TO_A_TENTH, step, 1 - 0.9 * step / 1000) for step in (0, 1, 500, 999, 1000)),
]


def test_the_papers_schedules() -> None:
    for settings, step, fraction in _NAMED:
        training = TrainingConfig(learning_rate=0.3, **settings)  # type: ignore[arg-type]
        assert learning_rate(training, step) == pytest.approx(0.3 * fraction, rel=1e-12, abs=1e-15)


def test_factored_stacks_take_the_root_of_their_depth() -> None:
    """Of 12 layers over theirs, whatever the parameter is and the factor of the branches; nothing
    outside the stack, and no other scaling."""
    inside, outside = Role("bias", (16,), layer=2), Role("embedding", (16,))
    for layers, wanted in ((3, 2.0), (12, 1.0), (48, 0.5), (27, 2 / 3)):
        model = ModelConfig(n_layer=layers, residual_scaling="factored", residual_factor=3.0)
        assert multiplier(model, inside) == pytest.approx(wanted)
        assert multiplier(model, outside) == 1.0
    assert multiplier(ModelConfig(n_layer=48, residual_scaling="linear"), inside) == 1.0
