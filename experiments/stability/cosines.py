"""Cosines between the increments of a new transformer's loops, and of an equally deep stack without
shared weights, without residual scaling (arXiv 2606.18524, Figure 3)."""

from __future__ import annotations

import numpy as np
import torch

from looplab.evaluation.figures import Pictures, heat_map, outer_labels
from looplab.evaluation.tables import Part
from looplab.probing.dynamics.trajectory import cosines
from looplab.training.progress import Progress

from .near_init import SHARED, Stack, token_model
from .settings import INITS, Init, StabilitySettings
from .tables import Description, Floats, OverSeeds, description, over_seeds

LOOPS = 16  # our choice: the paper does not give it
LAYERS = 12  # the paper's


class Cosines(Description):
    """`cosine`: for each sharing the matrix [loops, loops], averaged over tokens; `apart`: its mean
    over pairs of different increments."""

    cosine: dict[str, OverSeeds[list[list[float]]]]
    apart: dict[str, OverSeeds[float]]


def measure(settings: StabilitySettings) -> Cosines:
    """The cosines of all seeds."""
    init = INITS[settings.init_name]._replace(layers=LAYERS)
    seeds = settings.all_seeds
    result: Cosines = {
        **description(settings, init),
        "loops": list(range(1, LOOPS + 1)),
        "cosine": {},
        "apart": {},
    }
    off_diagonal = ~np.eye(LOOPS, dtype=bool)
    with Progress(2 * len(seeds), "cosines", "seed") as progress:
        for sharing, shared in SHARED.items():
            matrices = []
            for seed in seeds:
                matrices.append(increment_cosines(init, Stack(LOOPS, shared, "none"), seed))
                progress.update()
            result["cosine"][sharing] = over_seeds(np.stack(matrices))
            result["apart"][sharing] = over_seeds(np.stack(matrices)[:, off_diagonal].mean(1))
    return result


@torch.no_grad()
def increment_cosines(init: Init, stack: Stack, seed: int) -> Floats:
    """The cosines between the increments of the stream, averaged over tokens, [loops, loops]."""
    model, tokens = token_model(init, stack, seed)
    increments = torch.stack([stream.double() for stream in model.streams(tokens)]).diff(dim=0)
    units = increments / torch.linalg.vector_norm(increments, dim=-1, keepdim=True)
    return cosines(units)[0].numpy()


def report(result: Cosines) -> list[Part]:
    """The mean over pairs of different increments."""
    lines: list[Part] = [
        f"cosine of two different increments of {len(result['loops'])} loops, mean over tokens and "
        f"pairs, {result['what']}, {result['seeds']} seeds, ± standard error"
    ]
    for sharing, curve in result["apart"].items():
        lines.append(f"  {sharing}: {curve['mean']:.3f} ± {curve['standard_error']:.3f}")
    return lines


def draw(result: Cosines, pictures: Pictures, name: str) -> None:
    """The two matrices as pictures."""
    loops, columns = result["loops"], {}
    figure, panels = pictures.panels(2, 2, 4.5, 4.2)
    for axes, (sharing, curve) in zip(panels, result["cosine"].items(), strict=True):
        image = heat_map(axes, curve["mean"], loops)
        axes.set_title(sharing.replace("_", "-"))
        columns[sharing] = dict(zip(map(str, loops), curve["mean"], strict=True))
    outer_labels(panels, x="increment of loop", y="increment of loop")
    figure.colorbar(image, ax=panels, label="cosine, mean over tokens and seeds", shrink=0.8)
    pictures.title(figure, f"{result['what']}, ε = 1, {result['seeds']} seeds")
    pictures.save(figure, name, "loop", loops, columns)
