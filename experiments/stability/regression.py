"""Linear regression in context for the figures that train: small enough that a grid of rates, loops
and seeds takes minutes."""

from __future__ import annotations

from dataclasses import replace

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)

from ..population import Population
from .settings import StabilitySettings

DIMS, POINTS, WIDTH, HEADS, BATCH = 3, 7, 32, 4, 32


def regression_runs(
    settings: StabilitySettings,
    name: str,
    loops: int,
    model: ModelConfig,
    training: TrainingConfig,
) -> Population:
    """All rates and seeds of a model with `loops` loops from the first step on. `model` and
    `training` are completed by the settings that all figures share: the size of prompts, the width,
    the batch, the steps and gradients through all loops."""
    config = Config(
        task=TaskConfig("linear", dims=DIMS, points=POINTS),
        model=replace(model, n_embd=WIDTH, n_head=HEADS, n_positions=POINTS),
        loops=LoopsConfig(b=loops, T=1, grad_loops="all"),
        curriculum=CurriculumConfig(loops=GrowthConfig(start=loops)),
        training=replace(
            training, steps=settings.steps, batch_size=BATCH, log_every=1, log_norms=True
        ),
        device="cpu",  # models this small are fastest with one core each
        folder=settings.folder,
    )
    return Population(name, config, settings.all_rates, settings.all_seeds)
