"""Two finished runs of one task, for comparisons, and runs that have not settled."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from looplab.conf.schema import ModelConfig
from looplab.training import Run, train
from tests.conftest import tiny_config


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Run, Run]:
    """A looped run of four loops, and a standard one of two layers."""
    config = replace(tiny_config(tmp_path), seed=1)
    standard = ModelConfig(
        family="standard", n_layer=2, n_embd=16, n_head=2, n_positions=7, injection="none"
    )
    return train(config), train(replace(config, model=standard))


@torch.no_grad()
def restless(run: Run) -> Run:
    """With weights far from settled: predictions move both ways from loop to loop."""
    source = torch.Generator().manual_seed(0)
    for weights in run.model.parameters():
        weights.add_(0.5 * torch.randn(weights.shape, generator=source))
    return run
