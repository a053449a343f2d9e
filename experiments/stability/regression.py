"""Linear regression in context as the figures that train learn it: small enough that a grid of
rates, loops and seeds takes minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig

from ..grid import Cell
from .settings import StabilitySettings

DIMS, POINTS, WIDTH, HEADS, BATCH = 3, 7, 32, 4, 32


def regression_cell(
    settings: StabilitySettings,
    name: str,
    loops: int,
    model: ModelConfig,
    training: TrainingConfig,
) -> Cell:
    """All rates and seeds of a model of so many loops, from the first step on, whatever the
    curriculum says. `model` and `training` are given but for what the figures have in common: the
    problem, the width, the batch, the steps and a gradient through all loops."""
    config = Config(
        task=TaskConfig("linear", dims=DIMS, points=POINTS),
        model=replace(model, n_embd=WIDTH, n_head=HEADS, n_positions=POINTS),
        loops=LoopsConfig(b=loops, T=1, grad_loops="all"),
        training=replace(training, steps=settings.steps, batch_size=BATCH),
    )
    return Cell(name, config, settings.all_rates, settings.all_seeds, Path(settings.folder))
