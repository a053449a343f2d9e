"""Run folders as far as estimators read them: a configuration and weights. Of their tasks only
the words on prompts matter: labels, padding, divisor."""

from pathlib import Path

import torch

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.models import Model
from looplab.training.assemble import build_model, build_task
from looplab.training.run_folder.checkpoint import save_checkpoint
from looplab.training.run_folder.run import RunFolder

DIMS, POINTS, B = 6, 11, 4  # of `write_restless`; its positions are two more than its points


def make_model(config: Config) -> Model:
    """A fresh model of a configuration."""
    return build_model(config, build_task(config))


def write_run(folder: Path, config: Config, model: Model, step: int = 0) -> Path:
    """A run folder with this model as its newest checkpoint."""
    RunFolder(folder).create(config)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    save_checkpoint(folder / "checkpoints", step, tensors)
    return folder


def write_restless(folder: Path, classes: int, step: int = 0) -> Path:
    """A model whose weights are noise, of its step."""
    config = Config(
        task=TaskConfig("halfspaces" if classes else "linear", dims=DIMS, points=POINTS),
        model=ModelConfig("looped", 1, 16, 2, POINTS + 2, "add"),
        loops=LoopsConfig(B, 2),
    )
    return write_run(folder, config, restless(make_model(config), step), step)


@torch.no_grad()
def restless(model: Model, seed: int) -> Model:
    """The model with noise added to its weights: no two of its answers are alike, and they move
    from loop to loop."""
    source = torch.Generator().manual_seed(seed)
    for weights in model.parameters():
        weights.add_(0.3 * torch.randn(weights.shape, generator=source))
    return model
