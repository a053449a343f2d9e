"""Models trained at once: each is what it would be alone, and one that breaks breaks alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from reloop.training.assemble import build_curriculum, build_model, build_task, step_generator
from reloop.training.objective import loss
from reloop.training.population.trainer import BatchedTrainer, member_config
from reloop.training.run_folder.checkpoint import Checkpoint
from reloop.training.step import Trainer

RATES, SEEDS = (1e-3, 4e-3), (3, 5)
UNNORMED = ModelConfig(
    n_embd=8, n_head=2, n_positions=4, injection="none", norm="at_readout",
    residual_scaling="linear",
)  # fmt: skip
CONNECTED = ModelConfig(
    n_layer=2, n_embd=8, n_head=2, n_positions=4, injection="none", block="flt",
    connectivity="FLT",
)  # fmt: skip


def config_of(model: ModelConfig, **training: Any) -> Config:
    return Config(
        task=TaskConfig("linear", dims=2, points=4),
        model=model,
        loops=LoopsConfig(b=3, T=1, grad_loops="all"),
        training=TrainingConfig(steps=6, batch_size=8, warmup=2, decay=0.5, **training),
    )


def trained(config: Config, rates: Any = RATES, seeds: Any = SEEDS) -> BatchedTrainer:
    trainer = BatchedTrainer(config, rates, seeds)
    for step in range(config.training.steps):
        trainer.update(step)
    return trainer


def alone(config: Config) -> dict[str, list[float]]:
    """The readings of one member's run by PyTorch's own modules, optimiser and clipping, its step
    counted and its stream looked at by hand."""
    task = build_task(config)
    model, loops = build_model(config, task), config.loops.b
    adam = torch.optim.Adam(model.parameters(), lr=config.training.learning_rate)
    block: Any = model.loop.blocks[0]
    mlp = list(block.mlp.parameters()) if hasattr(block, "mlp") else []
    mlp = mlp or [*block.expand.parameters(), *block.contract.parameters()]
    found: dict[str, list[float]] = {}
    for step in range(config.training.steps):
        prompts = task.sample(
            step_generator(config.seed, step, 0, torch.device("cpu")), 8, config.task.points
        )
        streams = [state.raw[:, ::2].norm(dim=-1).mean() for state, _ in model.unroll(prompts, 3)]
        predictions = model(prompts, loops, 1, grad_loops=loops)
        value = loss("squared_error", predictions, prompts.ys)
        adam.zero_grad()
        value.backward()
        read = {"loss": value, "first_norm": streams[1], "last_norm": streams[3]}
        read["mlp_gradient"] = torch.cat([p.grad.flatten() for p in mlp]).norm()
        read["gradient"] = clip_grad_norm_(model.parameters(), config.training.clip or 1e9)
        read["mlp_clipped"] = torch.cat([p.grad.flatten() for p in mlp]).norm()
        for name, number in read.items():
            found.setdefault(name, []).append(number.item())
        factor = min((step + 1) / 2, (6 - step) / 3, 1.0)
        adam.param_groups[0]["lr"] = config.training.learning_rate * factor
        adam.step()
    return found


@pytest.mark.parametrize(("model", "clip"), [(UNNORMED, 0.0), (CONNECTED, 0.3)])
def test_a_member_is_what_it_would_be_alone(model: ModelConfig, clip: float) -> None:
    config = config_of(model, clip=clip)
    trainer = trained(config)
    for i, rate in enumerate(RATES):
        for j, seed in enumerate(SEEDS):
            expected = alone(member_config(config, rate, seed))
            for name, curve in expected.items():
                found = trainer.reading(name)[:, i * len(SEEDS) + j].numpy()
                np.testing.assert_allclose(found, curve, rtol=2e-4, err_msg=name)


def test_a_member_is_what_the_trainer_makes_of_it() -> None:
    """Of a tied model, whose gradient reaches through all loops at any setting."""
    tied = ModelConfig("tied", n_embd=8, n_head=2, n_positions=4)
    config = config_of(tied, clip=0.5)
    found = trained(config).reading("loss")[:, 3]
    own = member_config(config, RATES[1], SEEDS[1])
    task = build_task(own)
    trainer = Trainer(own, task, build_curriculum(own, task), build_model(own, task))
    for step, value in enumerate(found.tolist()):
        trainer.update(step)
        np.testing.assert_allclose(trainer.fetch().loss, value, rtol=2e-5)


def test_one_that_breaks_leaves_the_others_alone() -> None:
    config = config_of(UNNORMED)
    whole, broken = trained(config), BatchedTrainer(config, RATES, SEEDS)
    for step in range(config.training.steps):
        if step == 2:
            with torch.no_grad():
                broken.weights[1] *= 1e30
            stopped = broken.weights[1].clone()
        if step == 4:  # it stays where it was stopped, also where it would be finite again
            with torch.no_grad():
                broken.weights[1] = stopped = whole.weights[1].detach().clone()
        broken.update(step)
    assert broken.alive.tolist() == [True, False, True, True]
    others = [0, 2, 3]
    assert torch.equal(broken.history[:, :, others], whole.history[:, :, others])
    assert torch.equal(broken.weights[others], whole.weights[others])
    assert torch.equal(broken.weights[1], stopped)
    assert broken.history[2:, :, 1].isnan().all()
    assert broken.history[:2, :, 1].isfinite().all()


def test_it_goes_on_from_what_it_saved() -> None:
    config = config_of(CONNECTED, clip=0.3)
    whole, first = trained(config), BatchedTrainer(config, RATES, SEEDS)
    for step in range(3):
        first.update(step)
    saved = {name: tensor.clone() for name, tensor in first.state().items()}
    second = BatchedTrainer(config, RATES, SEEDS)
    second.load(Checkpoint(3, saved))
    for step in range(3, 6):
        second.update(step)
    for name, tensor in whole.state().items():
        assert torch.equal(second.state()[name], tensor), name


def test_errors_are_those_of_the_models() -> None:
    """And the weights stay as they are."""
    trainer = trained(config_of(UNNORMED))
    prompts = trainer.task.sample(torch.Generator().manual_seed(1), 16, 4)
    before = trainer.weights.detach().clone()
    errors = trainer.errors(prompts)
    model = build_model(trainer.config, trainer.task)
    torch.nn.utils.vector_to_parameters(before[2], model.parameters())
    expected = (model(prompts, 3)[0] - prompts.ys).square().mean() / 2
    torch.testing.assert_close(errors[2], expected.detach())
    assert torch.equal(trainer.weights, before)


@pytest.mark.parametrize(
    ("part", "setting", "reason"),
    [
        ("training", {"weight_decay": 0.1}, "neither weight decay nor shards"),
        ("training", {"shards": 2}, "neither weight decay nor shards"),
        ("training", {"optimizer": "muon"}, "no Muon"),
        ("loops", {"sampling": "uniform"}, "no sampled loops"),
        ("model", {"residual_scaling": "factored"}, "no factored scaling"),
    ],
)
def test_what_it_does_not_have_is_refused(part: str, setting: dict[str, Any], reason: str) -> None:
    whole = config_of(UNNORMED)
    parts: dict[str, Any] = {part: replace(getattr(whole, part), **setting)}
    with pytest.raises(ValueError, match=reason):
        BatchedTrainer(replace(whole, **parts), RATES, SEEDS)
