"""Two finished runs of one task, for comparisons, runs that have not settled, prompts for the
solvers and a slow way through every prefix of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from looplab.evaluation.bootstrap import Floats
from looplab.training import Run, train
from tests.conftest import tiny_config


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Run, Run]:
    """A looped run of four loops, and a standard one of two layers."""
    config = replace(tiny_config(tmp_path), seed=1)
    standard = replace(config.model, family="standard", n_layer=2, injection="none")
    return train(config), train(replace(config, model=standard))


@torch.no_grad()
def restless(run: Run) -> Run:
    """With weights far from settled: predictions move both ways from loop to loop."""
    source = torch.Generator().manual_seed(0)
    for weights in run.model.parameters():
        weights.add_(0.5 * torch.randn(weights.shape, generator=source))
    return run


# Weights [d] from the pairs X [k, d], y [k] of one prefix.
Fit = Callable[[Floats, Floats], Floats]


class Asked(NamedTuple):
    """xs [B, n, d], ys [B, n] and queries [B, n, d] that are other inputs than xs."""

    xs: Floats
    ys: Floats
    queries: Floats


def asked(batch: int, points: int, dims: int, *, rank: int | None = None, seed: int = 0) -> Asked:
    """Noisy linear prompts in float32 numbers; with `rank`, inputs in a subspace of that size."""
    generator = torch.Generator().manual_seed(seed)
    xs, queries = torch.randn(2, batch, points, dims, generator=generator)
    if rank is not None:
        basis = torch.linalg.qr(torch.randn(dims, rank, generator=generator)).Q
        xs = xs @ basis @ basis.T  # queries stay in the whole space
    weights = torch.randn(batch, dims, 1, generator=generator)
    noise = 0.1 * torch.randn(batch, points, generator=generator)
    ys = (xs @ weights).squeeze(2) + noise
    return Asked(*(part.double().numpy() for part in (xs, ys, queries)))


def one_by_one(prompts: Asked, fit: Fit) -> Floats:
    """Linear predictions [B, n] of `fit`, prefix by prefix; zero without pairs."""
    xs, ys, queries = prompts
    predictions = np.zeros(ys.shape)
    for b, k in np.ndindex(ys.shape):
        if k:
            predictions[b, k] = queries[b, k] @ fit(xs[b, :k], ys[b, :k])
    return predictions
