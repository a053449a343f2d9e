"""Cosines between the increments of a new transformer's loops, and of an equally deep stack without
shared weights, without residual scaling (arXiv 2606.18524, Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.evaluation.tables import Part
from looplab.probing.dynamics.trajectory import cosines
from looplab.training.progress import Progress

from .near_init import KINDS, SHARED, Stack, description, token_model
from .settings import INITS, Init, StabilitySettings
from .tables import with_errors

LOOPS = 16  # our choice: the paper does not give it
LAYERS = 12  # the paper's


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """`cosine`: for each sharing the matrix [loops, loops] over seeds, averaged over tokens;
    `apart`: its mean over pairs of different increments."""
    init = INITS[settings.init_name]._replace(layers=LAYERS)
    seeds, loops = settings.all_seeds, list(range(1, LOOPS + 1))
    cosine, apart = {}, {}
    off_diagonal = ~np.eye(LOOPS, dtype=bool)
    with Progress(2 * len(seeds), "cosines", "seed") as progress:
        for sharing, shared in SHARED.items():
            matrices = []
            for seed in seeds:
                matrices.append(increment_cosines(init, Stack(LOOPS, shared, "none"), seed))
                progress.update()
            cosine[sharing] = with_errors(np.stack(matrices))
            apart[sharing] = with_errors(np.stack(matrices)[:, off_diagonal].mean(1))
    return {**description(settings, init), "loops": loops, "cosine": cosine, "apart": apart}


@torch.no_grad()
def increment_cosines(init: Init, stack: Stack, seed: int) -> Floats:
    """The cosines between the increments of the stream, averaged over tokens, [loops, loops]."""
    model, tokens = token_model(init, stack, seed)
    increments = torch.stack([stream.double() for stream in model.streams(tokens)]).diff(dim=0)
    units = increments / torch.linalg.vector_norm(increments, dim=-1, keepdim=True)
    return cosines(units)[0].numpy()


def report(result: dict[str, Any]) -> list[Part]:
    """The mean over pairs of different increments."""
    lines: list[Part] = [
        f"cosine of two different increments of {len(result['loops'])} loops, mean over tokens and "
        f"pairs, {result['what']}, {result['seeds']} seeds, ± standard error"
    ]
    for sharing, curve in result["apart"].items():
        lines.append(f"  {sharing}: {curve['mean']:.3f} ± {curve['standard_error']:.3f}")
    return lines


def panels(result: dict[str, Any]) -> list[Panel]:
    """The two matrices, and their cosines by the distance between two loops."""
    drawn, curves = list[Panel](), []
    for sharing, of in result["cosine"].items():
        name, kind = f"cosines-{sharing.replace('_', '-')}", KINDS[sharing]
        title = f"{kind}: cosine, mean over tokens and seeds; {result['what']}"
        drawn.append(matrix_panel(name, title, of["mean"], "cosines"))
        values = by_distance(np.array(of["by_seed"]), len(of["mean"]))
        family = "looped" if sharing == "looped" else "standard"
        curves.append(Curve.of(kind, family, mean_of_seeds(values)))
    title = f"increments of {len(result['loops'])} loops, {result['what']}"
    return [*drawn, distance_panel("cosines", title, curves)]


def matrix_panel(
    name: str, title: str, matrix: Sequence[Sequence[float | None]], picture: str = ""
) -> Panel:
    """The cosines [loops, loops] between increments in colours."""
    axis, x = "increment of loop", range(1, len(matrix) + 1)
    return Panel(name, title, axis, axis, x, matrix=matrix, picture=picture)


def distance_panel(name: str, title: str, curves: Sequence[Curve]) -> Panel:
    """Curves of `by_distance`."""
    axes = ("distance between two loops", "cosine of their increments, mean")
    x = range(1, len(curves[0].mean) + 1)
    return Panel(f"{name}-by-distance", title, *axes, x, curves)


def by_distance(matrices: Floats, longest: int) -> Floats:
    """The mean of each diagonal above the main one of cosines [seeds, loops, loops] that may be
    nan, [seeds, longest - 1]: nan where all are, and from `loops` on."""
    means = []
    for distance in range(1, longest):
        diagonal = np.diagonal(matrices, distance, 1, 2)
        counts = np.isfinite(diagonal).sum(1)
        means.append(np.where(counts, np.nansum(diagonal, 1) / np.maximum(counts, 1), np.nan))
    return np.stack(means, axis=1)
