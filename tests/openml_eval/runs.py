"""Run folders as far as estimators read them: a configuration and weights. Of their tasks only
the words on prompts matter: labels, padding, divisor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from models import Model, ModelSpec
from training.checkpoint import save_checkpoint
from training.run import RunFolder

DIMS, POINTS, B = 6, 11, 4  # of `write_restless`; its positions are two more than its points


def make_model(config: Config, classes: int) -> Model:
    """A fresh model."""
    return Model(ModelSpec(dims=config.task.dims, classes=classes, **asdict(config.model)))


def write_run(folder: Path, config: Config, model: Model, step: int = 0) -> Path:
    """A run folder with this model as its newest checkpoint."""
    RunFolder(folder).create(config)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    save_checkpoint(folder / "checkpoints", step, tensors)
    return folder


@torch.no_grad()
def write_restless(folder: Path, classes: int, step: int = 0) -> Path:
    """A looped model whose weights are noise, of its step: no two of its answers are alike, and
    they move from loop to loop."""
    config = Config(
        task=TaskConfig("halfspaces" if classes else "linear", dims=DIMS, points=POINTS),
        model=ModelConfig("looped", 1, 16, 2, POINTS + 2, "add"),
        loops=LoopsConfig(B, 2),
    )
    model, source = make_model(config, classes), torch.Generator().manual_seed(step)
    for weights in model.parameters():
        weights.add_(0.3 * torch.randn(weights.shape, generator=source))
    return write_run(folder, config, model, step)
