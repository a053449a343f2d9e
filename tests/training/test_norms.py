"""training.log_norms: norms of the stream and of gradients, beside which nothing else moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from looplab.training.assemble import build_model, build_task, step_generator
from looplab.training.inside_loops import ResidualNorms
from looplab.training.objective import loss
from tests.training.tiny import make_trainer

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
        loops=LoopsConfig(b=3, T=3, grad_loops="all"),
        training=TrainingConfig(
            steps=6, batch_size=8, learning_rate=4e-3, log_norms=True, **training
        ),
    )


def by_hand(config: Config) -> list[dict[str, float]]:
    """The same training by PyTorch's own modules, optimiser and clipping, its stream looked at as
    the model unrolls."""
    task = build_task(config)
    model = build_model(config, task)
    adam = torch.optim.Adam(model.parameters(), lr=config.training.learning_rate)
    block: Any = model.loop.blocks[0]
    mlp = list(block.mlp.parameters()) if hasattr(block, "mlp") else []
    mlp = mlp or [*block.expand.parameters(), *block.contract.parameters()]
    found = []
    for step in range(config.training.steps):
        generator = step_generator(config.seed, step, 0, torch.device("cpu"))
        prompts = task.sample(generator, 8, config.task.points)
        norms = [state.raw[:, ::2].norm(dim=-1).mean() for state, _ in model.unroll(prompts, 3)]
        loss_ = loss("squared_error", model(prompts, 3, 3), prompts.ys)
        adam.zero_grad()
        loss_.backward()
        before = torch.cat([p.grad.flatten() for p in mlp]).norm()
        clip_grad_norm_(model.parameters(), config.training.clip or 1e9)
        after = torch.cat([p.grad.flatten() for p in mlp]).norm()
        adam.step()
        names = ("first_residual", "last_residual", "mlp_grad_norm", "mlp_grad_norm_clipped")
        values = (norms[1], norms[3], before, after)
        found.append({name: value.item() for name, value in zip(names, values, strict=True)})
    return found


@pytest.mark.parametrize(("model", "clip"), [(UNNORMED, 0.0), (CONNECTED, 0.3)])
def test_the_norms_are_those_of_the_model(model: ModelConfig, clip: float) -> None:
    config = config_of(model, clip=clip)
    trainer = make_trainer(config)
    for step, expected in enumerate(by_hand(config)):
        trainer.update(step)
        assert trainer.fetch().others == pytest.approx(expected, rel=2e-4)
    if clip:
        assert expected["mlp_grad_norm_clipped"] < expected["mlp_grad_norm"]


@pytest.mark.parametrize("model", [UNNORMED, CONNECTED])
def test_the_weights_are_the_same_without_them(model: ModelConfig) -> None:
    config = config_of(model)
    silent = replace(config, training=replace(config.training, log_norms=False))
    trainer, other = make_trainer(config), make_trainer(silent)
    for step in range(3):
        trainer.update(step)
        other.update(step)
    assert other.fetch().others == {}
    for name, tensor in other.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor), name


@pytest.mark.parametrize(("loops", "window", "grad"), [(1, 1, 1), (4, 2, 4)])
def test_predictions_are_the_same_beside_them(loops: int, window: int, grad: int) -> None:
    config = config_of(UNNORMED)
    model, task = build_model(config, build_task(config)), build_task(config)
    prompts = task.sample(torch.Generator().manual_seed(1), 5, 4)
    expected = model(prompts, loops, window, grad_loops=grad)
    with ResidualNorms(model) as norms:
        torch.testing.assert_close(model(prompts, loops, window, grad_loops=grad), expected)
    streams = [state.raw[:, ::2].norm(dim=-1).mean() for state, _ in model.unroll(prompts, loops)]
    expected_norms = torch.stack((streams[1], streams[loops])).detach()
    torch.testing.assert_close(norms.norms, expected_norms)
    torch.testing.assert_close(model(prompts, loops, window), expected)
