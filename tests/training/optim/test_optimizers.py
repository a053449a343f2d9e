"""Which parameter is moved how: groups, rates over a run and in stacks whose branches shrink with
their depth, epsilon and decay of each optimiser; what is kept beside the weights, by name; and
the moving average of the weights, by which a run is measured."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from looplab.conf.saved import read_config
from looplab.conf.schema import Config, ModelConfig, TrainingConfig
from looplab.evaluation.load import load_run
from looplab.models import Model, ModelSpec
from looplab.models.blocks.parameters import Role
from looplab.training import train
from looplab.training.optim.muon import Muon
from looplab.training.optim.optimizers import (
    Optimizer,
    WeightAverage,
    learning_rate,
    make_optimizer,
    multiplier,
)
from looplab.training.run_folder.checkpoint import newest_checkpoint
from looplab.training.run_folder.run import run_folder
from tests.conftest import HOME
from tests.training.tiny import assert_same_bits, make_trainer, tiny

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


def test_decay_by_rate_is_one_product_whatever_the_rate() -> None:
    model = _model()
    made = _make(model, optimizer="muon", muon_rate=0.5, weight_decay=0.01, decay_by_rate=True)
    found = _settings(model, made)
    for name in _MATRICES | {"read_in.weight", "read_out.weight"}:
        assert found[name].rate * found[name].decay == pytest.approx(0.01)
    assert found["read_in.weight"].decay > found["loop.blocks.0.qkv.weight"].decay


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


# The three papers' settings, and warm-up and decay that overlap, whose rate is the product of both:
# what differs from the defaults, and the fraction of the peak at steps of their own, the corners
# among them.
_STABLE_DECAY = {"steps": 20_000, "warmup": 500, "decay": 0.05}  # arXiv 2606.18524
_TRAPEZOID = {"steps": 5_000, "decay": 0.2}  # arXiv 2605.18797
_TO_A_TENTH = {"steps": 1_000, "decay": 1.0, "decay_to": 0.1}  # arXiv 2604.21106
_OVERLAPPING = {"steps": 10, "warmup": 10, "decay": 1.0}
_NAMED = [
    *((_STABLE_DECAY, step, (step + 1) / 500) for step in (0, 1, 250, 498)),
    *((_STABLE_DECAY, step, 1.0) for step in (499, 500, 10_000, 18_999, 19_000)),
    *((_STABLE_DECAY, 19_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TRAPEZOID, step, 1.0) for step in (0, 1, 3_999, 4_000)),
    *((_TRAPEZOID, 4_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TO_A_TENTH, step, 1 - 0.9 * step / 1000) for step in (0, 1, 500, 999, 1000)),
    *((_OVERLAPPING, step, (step + 1) / 10 * (10 - step) / 10) for step in range(10)),
]


def test_the_rate_follows_the_papers_schedules() -> None:
    for settings, step, fraction in _NAMED:
        rate = learning_rate(TrainingConfig(**settings), step, 0.3)  # type: ignore[arg-type]
        assert rate == pytest.approx(0.3 * fraction, rel=1e-12, abs=1e-15)


def test_factored_stacks_take_the_root_of_their_depth() -> None:
    """Of 12 layers over theirs, whatever the parameter is and the factor of the branches; nothing
    outside the stack, and no other scaling."""
    inside, outside = Role("bias", (16,), layer=2), Role("embedding", (16,))
    for layers, wanted in ((3, 2.0), (12, 1.0), (48, 0.5), (27, 2 / 3)):
        model = ModelConfig(n_layer=layers, residual_scaling="factored", residual_factor=3.0)
        assert multiplier(model, inside) == pytest.approx(wanted)
        assert multiplier(model, outside) == 1.0
    assert multiplier(ModelConfig(n_layer=48, residual_scaling="linear"), inside) == 1.0


_OLD = HOME / "tests" / "fixtures" / "sparse_linear-looped-seed0-77d87793"


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


_GOOD, _BAD = torch.tensor(False), torch.tensor(True)


def test_it_is_the_exponential_average_of_the_weights() -> None:
    """Of which those after a step that broke are no part."""
    model = nn.Linear(2, 3)
    average = WeightAverage(model, decay=0.9)
    wanted = model.weight.detach().clone().double()
    for number in range(1, 100):
        with torch.no_grad():
            model.weight.normal_()
        average.update(torch.tensor(float(number), dtype=torch.float64), _GOOD)
        decay = min(0.9, number / (number + 9))
        wanted = decay * wanted + (1 - decay) * model.weight.detach()
        torch.testing.assert_close(average.averages[0], wanted.float())
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


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_shares_are_the_whole(optimizer: str, tmp_path: Path) -> None:
    """Each of two optimisers keeps the state of some weights, and moves these alone as one of all
    moves them."""
    config = tiny(tmp_path, optimizer=optimizer, clip=0.5)
    whole, *parts = (make_trainer(config) for _ in range(3))
    for index, part in enumerate(parts):
        part.update(0)
        part.optimizer.keep([part.parameters[i] for i in range(index, len(part.parameters), 2)])
    for step in range(2):
        whole.update(step)
    begun = [weight.detach().clone() for weight in parts[0].parameters]
    for part in parts:
        part.update(1)
    for number, wanted in enumerate(whole.parameters):
        own, other = (parts[(number + place) % 2].parameters[number] for place in (0, 1))
        assert torch.equal(own, wanted)
        assert torch.equal(other, begun[number])
    states = [part.optimizer.state() for part in parts]
    assert not states[0].keys() & states[1].keys()
    assert states[0].keys() | states[1].keys() == whole.optimizer.state().keys()
